/**
 * Which spans are held. Up to two million: all of them, above 200,000 after tiles, which come sooner.
 * More: tiles of the whole run and finer tiles of the window, which are asked for again whenever the
 * window shows more than they say.
 */

import { batchOf } from "./arrow.js";
import { Store } from "./store.js";

export const MOST_WHOLE = 2_000_000;
export const MOST_AT_ONCE = 200_000;
const MOST_TILES = 200_000;
const SETTLED_MS = 150;
const ALWAYS = ["lane", "depth", "start", "duration", "name", "id", "parent", "query", "kind"];

/** The columns that a run needs: a million values of each that says nothing are megabytes. */
export function columnsOf(trace, isTiled) {
  const has = (group) => trace.lanes.some((lane) => lane.group === group);
  const columns = [...ALWAYS];
  if (has("device")) columns.push("correlation");
  if (has("counter")) columns.push("value");
  if (isTiled) columns.push("count", "busy");
  return columns;
}

export class DetailLevels {
  /** @param {import("./source.js").Source} source @param {() => void} onChange called when finer spans arrived */
  constructor(source, onChange) {
    this.source = source;
    this.onChange = onChange;
    this.overview = new Store();
    /** @type {{store: Store, from: number, to: number, least: number} | null} */
    this.finer = null;
    this.isTiled = false;
    /** whether tiles are shown until single spans have come */
    this.isPartial = false;
    this.isLoading = false;
  }

  /** Load the run: all spans, or tiles no shorter than a pixel of `width`. */
  async load(trace, width) {
    const [from, to] = trace.range_ns;
    this.isTiled = trace.spans > MOST_WHOLE;
    this.isPartial = !this.isTiled && trace.spans > MOST_AT_ONCE;
    const comesAsTiles = this.isTiled || this.isPartial;
    const least = comesAsTiles ? (to - from) / width : 0;
    this.columns = columnsOf(trace, comesAsTiles);
    const tiles = comesAsTiles ? { least, limit: MOST_TILES } : {};
    this.overview = await this.#storeOf({ ...tiles, columns: this.columns });
    this.least = least;
  }

  /** Load the single spans of a run that was loaded as tiles at first. */
  async complete(trace) {
    this.columns = columnsOf(trace, false);
    this.overview = await this.#storeOf({ columns: this.columns });
    this.isPartial = false;
    this.least = 0;
  }

  /** A new store of what the server sends; it shares the names of the whole run's. */
  async #storeOf(asked, signal) {
    const buffer = await this.source.spans(asked, signal);
    const store = new Store(this.overview);
    const batch = batchOf(buffer, (text) => store.nameOf(text));
    if (batch.size) store.append(batch);
    return store;
  }

  /** The store that shows a window best. */
  storeFor(window) {
    const { finer } = this;
    return finer && window.from >= finer.from && window.to <= finer.to ? finer.store : this.overview;
  }

  /** Ask for finer tiles if the window rests where they are missing. */
  rest(window, width, limits) {
    clearTimeout(this.timer);
    if (!this.isTiled) return;
    const wanted = (window.to - window.from) / width;
    const held = this.storeFor(window) === this.overview ? this.least : this.finer.least;
    if (held <= wanted * 2) return;
    this.timer = setTimeout(() => this.#refine(window, wanted, limits), SETTLED_MS);
  }

  async #refine(window, wanted, limits) {
    const length = window.to - window.from;
    const from = Math.max(limits.from, window.from - length), to = Math.min(limits.to, window.to + length);
    this.abort?.abort();
    this.abort = new AbortController();
    this.isLoading = true;
    try {
      const store = await this.#storeOf({ from, to, least: wanted, limit: MOST_TILES, columns: this.columns }, this.abort.signal);
      this.finer = { store, from, to, least: wanted };
    } catch (error) {
      if (error.name !== "AbortError") throw error;
      return;
    } finally {
      this.isLoading = false;
    }
    this.onChange();
  }
}
