/**
 * Spans of a run while it goes on, from the evaluation's stream of server-sent events.
 *
 * The stream is closed while the page is hidden and resumed after the last event when it is shown.
 * Numbers of lanes and names hold for one connection; here they become the store's own. What a broken
 * connection missed becomes a gap: the stored trace fills it when the run has ended.
 */

/** @typedef {{onLanes: Function, onBatch: Function, onGap: Function, onState: Function, onEnd: Function}} Listeners */

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
    this.source = null;
    this.lastEvent = "";
    this.isOver = false;
    /** @type {Map<string, object>} lanes by key, over all connections */
    this.lanes = new Map();
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
  }

  open() {
    if (this.source || this.isOver || document.hidden) return;
    const after = this.lastEvent ? `&after=${this.lastEvent}` : "";
    this.source = new EventSource(`${this.url}?spans=1${after}`);
    const on = (name, action) => this.source.addEventListener(name, (event) => {
      if (event.lastEventId) this.lastEvent = event.lastEventId;
      action(JSON.parse(event.data));
    });
    on("spans", (data) => this.#take(data));
    on("gap", (data) => this.#miss(data));
    on("state", (data) => this.listeners.onState(data));
    on("run", (data) => this.listeners.onState(data));
    on("end", (data) => this.#end(data));
    this.source.onopen = () => this.#connected();
    this.source.onerror = () => this.listeners.onState({ connection: "lost" });
    this.#begin();
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  /** Forget the numbers of the connection before. */
  #begin() {
    this.names = new Map();
    this.numbers = new Map();
    this.sequenceBefore = Math.max(this.sequence, 0);
    this.sequence = -1;
  }

  #connected() {
    if (this.sequence >= 0) this.#begin();
    this.listeners.onState({ connection: "live" });
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
    this.isOver = true;
    this.close();
    this.listeners.onEnd(data);
  }
}
