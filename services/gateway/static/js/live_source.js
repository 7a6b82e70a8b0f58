// A page's one connection to a stream of server-sent events. It says on the page when what is shown
// is not of now, why, and what happens next.
//
// A browser's EventSource tries again by itself after a cut, but not after a refusal, and it does
// not notice that its connection died while the computer slept: hence the server's pings.
// HTTP/1.1 has six connections for all pages of a browser. So a hidden page closes its stream; of
// those in sight `PLACES` are open, and the others take turns on one more.

import { places } from "./places.js";

const SILENT_MS = 12_000; // the server pings every 5 s (services/gateway/live/stream.py)
const CUT_MS = 1500; // shorter cuts are not worth a word
const REFUSED_MS = 10_000;
const CHECK_MS = 500;

/** Return how old something is, in words. */
export function ageText(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

export class LiveSource {
  #source = null;
  #place = null;
  #lastHeard = 0;
  #cutSince = 0;
  #trouble = "";
  #refusal = null;
  #again = 0;
  #openedAt = 0;
  #takesTurns = false;
  #isOver = false;
  #said = "";

  /**
   * @param {object} options
   * @param {() => string} options.address of the stream, asked for at each opening
   * @param {Record<string, (data: object, id: string) => void>} options.actions by names of events
   * @param {HTMLElement|null} options.banner says that the page is not live; hidden while it is
   * @param {HTMLElement|null} options.stale has the class `stale` while the page is not live
   * @param {() => void} [options.onOpen] called at each (re)connection
   */
  constructor({ address, actions, banner, stale, onOpen = () => {} }) {
    Object.assign(this, { address, actions, banner, stale, onOpen });
    this.timer = setInterval(() => this.#check(), CHECK_MS);
    this.onVisibility = () => {
      this.#check();
      if (document.hidden) this.#close();
      else this.open();
    };
    document.addEventListener("visibilitychange", this.onVisibility);
  }

  /** Whether the stream is open now. */
  get isOpen() {
    return this.#source?.readyState === EventSource.OPEN;
  }

  /** Open the stream unless it is open, or nobody sees the page. */
  async open() {
    if (this.#source || this.#place || this.#isOver || document.hidden) return;
    clearTimeout(this.#again);
    const place = places.take();
    this.#place = place;
    if (place.granted) await place.granted;
    if (this.#place !== place) return;
    this.#takesTurns = place.isTurn;
    this.#connect(place);
  }

  /** Close the stream for good. */
  end() {
    this.#isOver = true;
    this.#close();
    clearInterval(this.timer);
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.#say("");
  }

  #connect(place) {
    const source = new EventSource(this.address());
    [this.#source, this.#openedAt] = [source, Date.now()];
    source.addEventListener("open", () => {
      [this.#cutSince, this.#refusal] = [0, null];
      this.onOpen();
      if (place.isTurn) this.#again = setTimeout(() => this.#pause(), place.turnMs);
    });
    source.addEventListener("error", () => this.#fail(source));
    source.addEventListener("ping", (event) => this.#hear(JSON.parse(event.data).trouble));
    for (const [name, action] of Object.entries(this.actions)) {
      source.addEventListener(name, (event) => {
        this.#hear(this.#trouble);
        action(JSON.parse(event.data), event.lastEventId);
      });
    }
  }

  #close() {
    clearTimeout(this.#again);
    this.#source?.close();
    this.#place?.release();
    [this.#source, this.#place] = [null, null];
  }

  /** End a turn: others wait for theirs. */
  #pause() {
    this.#close();
    if (!document.hidden) this.#again = setTimeout(() => this.open(), 1000);
  }

  #reopen(ms = 0) {
    this.#close();
    this.#again = setTimeout(() => this.open(), ms);
  }

  #hear(trouble) {
    this.#trouble = trouble;
    if (!trouble) this.#lastHeard = Date.now();
    [this.#cutSince, this.#refusal] = [0, null];
    this.#check();
  }

  #fail(source) {
    this.#cutSince ||= Date.now();
    if (source.readyState !== EventSource.CLOSED || source !== this.#source) return;
    this.#close();
    this.#askWhy();
  }

  /** Ask why the stream was refused, which an EventSource does not tell; then try again. */
  async #askWhy() {
    const asking = new AbortController();
    try {
      const response = await fetch(this.address(), { signal: asking.signal });
      if (response.status === 401) this.#refusal = { text: "You are not logged in any more", link: ["Log in", "/login"] };
      else if (!response.ok) this.#refusal = { text: (await response.json()).message };
      asking.abort();
    } catch {
      this.#refusal = null;
    }
    this.#reopen(this.#refusal ? REFUSED_MS : 1000);
    this.#check();
  }

  /** Look whether the stream is alive, and say on the page if it is not. */
  #check() {
    if (document.hidden || this.#isOver) return;
    const now = Date.now();
    this.#takesTurns ||= Boolean(this.#place?.isTurn);
    // No ping came: the computer slept, or the connection is dead and the browser cannot tell.
    const isSilent = now - Math.max(this.#lastHeard, this.#openedAt) > SILENT_MS;
    if (this.#source && isSilent && !this.#trouble && !this.#cutSince) this.#reopen();
    const isOld = this.#lastHeard && now - this.#lastHeard > SILENT_MS && !this.#takesTurns;
    const isCut = this.#cutSince && now - this.#cutSince >= CUT_MS;
    if (this.#refusal) this.#say(`${this.#refusal.text}. It is tried again every ${REFUSED_MS / 1000} s.`, this.#refusal.link);
    else if (isCut) this.#say("The connection to the gateway is cut. It is tried again by itself.");
    else if (this.#trouble) this.#say(`${this.#trouble}. This page goes on when it does.`);
    else if (isOld) this.#say("It is being brought up to date.");
    else if (this.#takesTurns) this.#sayTurns();
    else this.#say("");
  }

  #age() {
    if (!this.#lastHeard) return "Not live: no update has come. ";
    return `Not live: what you see is ${ageText(Date.now() - this.#lastHeard)} old. `;
  }

  #sayTurns() {
    const text = `Brought up to date every few seconds: ${places.count} other windows of this browser are live. Close or hide one of them.`;
    this.#show(text, false, []);
  }

  #say(text, link) {
    if (!text) return this.#show("", false, []);
    const retry = document.createElement("button");
    Object.assign(retry, { type: "button", textContent: "Try now" });
    retry.addEventListener("click", () => this.#reopen());
    const further = [retry];
    if (link) {
      const anchor = document.createElement("a");
      [anchor.textContent, anchor.href] = link;
      further.unshift(anchor, " ");
    }
    this.#show(`${this.#age()}${text} `, true, further);
  }

  #show(text, isStale, further) {
    if (text === this.#said || !this.banner) return;
    this.#said = text;
    const button = this.banner.querySelector("button");
    if (button && button === document.activeElement && further.length) this.banner.firstChild.textContent = text;
    else this.banner.replaceChildren(text, ...further);
    this.banner.hidden = !text;
    this.stale?.classList.toggle("stale", isStale);
  }
}
