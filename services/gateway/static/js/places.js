// Places for streams: HTTP/1.1 has six connections for all pages of a browser, and a page whose
// requests wait for them is dead. The pages of a browser share `count` places by locks; who gets
// none waits for a turn. Without locks (a page from another machine without TLS) nobody waits.

const COUNT = 4;
const TURN_MS = 1500;
const NAME = "mlscope-stream";

/**
 * @typedef {object} Place
 * @property {Promise<void>|undefined} granted settles when a stream may be opened
 * @property {boolean} isTurn whether the place is for `turnMs` only
 * @property {number} turnMs
 * @property {() => void} release
 */

export class Places {
  /** @param {LockManager|undefined} locks */
  constructor(locks, { count = COUNT, turnMs = TURN_MS } = {}) {
    Object.assign(this, { locks, count, turnMs });
  }

  /** Take a place; `granted` settles at once where there are no locks. @returns {Place} */
  take() {
    const place = { isTurn: false, turnMs: this.turnMs, isReleased: false, release: () => {} };
    place.release = () => { place.isReleased = true; };
    place.granted = this.locks ? this.#grant(place) : undefined;
    return place;
  }

  async #grant(place) {
    for (let number = 0; number < this.count; number += 1) {
      if (await this.#hold(place, `${NAME}-${number}`, { ifAvailable: true })) return;
    }
    place.isTurn = true;
    await this.#hold(place, `${NAME}-turn`, {});
  }

  /** Hold a lock until the place is released; tell whether it is held. */
  #hold(place, name, options) {
    return new Promise((settle) => {
      this.locks.request(name, options, (lock) => {
        settle(Boolean(lock));
        if (!lock || place.isReleased) return undefined;
        return new Promise((release) => { place.release = () => { place.isReleased = true; release(); }; });
      }).catch(() => settle(true));
    });
  }
}

export const places = new Places(navigator.locks);
