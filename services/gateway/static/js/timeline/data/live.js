/**
 * Spans of a run while it goes on, from the evaluation's stream of server-sent events.
 *
 * The stream is resumed after the last event.
 *
 * Numbers of lanes and names hold for one connection; here they become the store's own. What a broken
 * connection missed becomes a gap: the stored trace fills it when the run has ended.
 */

import { LiveSource } from "../../live_source.js";

/** @typedef {{onLanes: Function, onBatch: Function, onGap: Function, onEnd: Function, onRuns?: Function, banner?: HTMLElement, stale?: HTMLElement}} Listeners */

/**
 * Columns of an event as a batch of the store. Pure.
 * @param {Map<number, number>} names @param {Map<number, number>} lanes from numbers of the event to the store's
 */
export function batchOf(event, names, lanes) {
  const { names: _, lanes: __, ...columns } = event;
  const number = (known) => (value) => known.get(value) ?? 0;
  return { ...columns, size: event.start.length, name: Uint32Array.from(event.name, number(names)), lane: Uint16Array.from(event.lane, number(lanes)) };
}

export class LiveFeed {
  /**
   * @param {string} url without query @param {string} run
   * @param {(text: string) => number} nameOf @param {Listeners} listeners
   */
  constructor(url, run, nameOf, listeners) {
    Object.assign(this, { url, run, nameOf, listeners });
    this.received = 0;
    this.dropped = 0;
    this.repeated = 0;
    /** the newest batch of this connection, and of the one before; whether batches came between */
    this.sequence = -1;
    this.sequenceBefore = 0;
    this.hasMissed = false;
    this.lastEnd = 0;
    this.lastEvent = "";
    /** @type {Map<string, object>} lanes by key, over all connections */
    this.lanes = new Map();
    this.#begin();
    const on = (action) => (data, id) => {
      if (id) this.lastEvent = id;
      action(data);
    };
    this.source = new LiveSource({
      address: () => `${this.url}?spans=1${this.lastEvent ? `&after=${this.lastEvent}` : ""}`,
      actions: {
        spans: on((data) => this.#take(data)),
        gap: on((data) => this.#miss(data)),
        state: on((data) => data.runs && this.listeners.onRuns?.(data.runs)),
        run: on((data) => this.listeners.onRuns?.(data.runs)),
        end: on((data) => this.#end(data)),
      },
      banner: listeners.banner ?? null,
      stale: listeners.stale ?? null,
      onOpen: () => this.#begin(),
    });
  }

  open() {
    this.source.open();
  }

  /** Forget the numbers of the connection before. */
  #begin() {
    this.names = new Map();
    this.numbers = new Map();
    if (this.sequence >= 0) this.sequenceBefore = this.sequence;
    this.sequence = -1;
  }

  #take(data) {
    for (const [number, text] of Object.entries(data.names ?? {})) this.names.set(Number(number), this.nameOf(text));
    this.#learn(data.lanes ?? []);
    if (data.start.length === 0) this.hasMissed ||= data.sequence !== this.sequenceBefore;
    if (data.run !== this.run || data.start.length === 0) return;
    if (data.sequence !== undefined && data.sequence <= this.sequence) {
      this.repeated += data.start.length;
      return;
    }
    this.sequence = data.sequence ?? this.sequence;
    const batch = batchOf(data, this.names, this.numbers);
    this.received += batch.size;
    if (this.hasMissed && batch.start[0] > this.lastEnd) this.listeners.onGap({ lane: null, from_ns: this.lastEnd, to_ns: batch.start[0], count: 0 });
    this.hasMissed = false;
    this.lastEnd = Math.max(this.lastEnd, batch.start.at(-1) + batch.duration.at(-1));
    this.listeners.onBatch(batch);
  }

  /** Give lanes numbers by their keys, which stay the same over connections. */
  #learn(lanes) {
    for (const lane of lanes) {
      if (!this.lanes.has(lane.key)) this.lanes.set(lane.key, { depth_max: 0, spans: 0, ...lane, lane: this.lanes.size });
      this.numbers.set(lane.lane, this.lanes.get(lane.key).lane);
    }
    if (lanes.length) this.listeners.onLanes([...this.lanes.values()]);
  }

  #miss(data) {
    if (data.from_ns === undefined || data.run !== this.run) return;
    this.dropped += data.count ?? 0;
    this.listeners.onGap(data);
  }

  #end(data) {
    this.source.end();
    this.listeners.onEnd(data);
  }
}
