/**
 * Spans of a run while it goes on, from the evaluation's stream of server-sent events.
 *
 * The stream is closed while the page is hidden and resumed after the last event when it is shown.
 * Batches have a sequence: what comes twice is counted once, what is missing becomes a gap.
 */

/** @typedef {{onLanes: Function, onBatch: Function, onGap: Function, onState: Function, onEnd: Function}} Listeners */

/** Columns of an event as a batch of the store. Pure. */
export function batchOf(event, names, nameOf) {
  for (const [number, text] of Object.entries(event.names ?? {})) names.set(Number(number), nameOf(text));
  const size = event.start.length;
  const batch = { ...event, size, names: undefined };
  batch.name = Uint32Array.from(event.name, (number) => names.get(number) ?? nameOf(""));
  return batch;
}

export class LiveFeed {
  /** @param {string} url without query @param {(text: string) => number} nameOf @param {Listeners} listeners */
  constructor(url, nameOf, listeners) {
    this.url = url;
    this.nameOf = nameOf;
    this.listeners = listeners;
    this.received = 0;
    this.dropped = 0;
    this.repeated = 0;
    /** milliseconds from publishing to here, of the latest batches */
    this.delays = [];
    this.source = null;
    this.lastEvent = "";
    this.isOver = false;
    /** @type {Map<string, number>} last sequence of each run */
    this.sequences = new Map();
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
  }

  open() {
    if (this.source || this.isOver || document.hidden) return;
    const after = this.lastEvent ? `&after=${this.lastEvent}` : "";
    this.names = new Map();
    this.source = new EventSource(`${this.url}?spans=1${after}`);
    const on = (name, action) => this.source.addEventListener(name, (event) => {
      if (event.lastEventId) this.lastEvent = event.lastEventId;
      action(JSON.parse(event.data));
    });
    on("lanes", (data) => this.listeners.onLanes(data));
    on("spans", (data) => this.#take(data));
    on("gap", (data) => this.#miss(data));
    on("state", (data) => this.listeners.onState(data));
    on("run", (data) => this.listeners.onState(data));
    on("end", (data) => {
      this.isOver = true;
      this.close();
      this.listeners.onEnd(data);
    });
    this.source.onopen = () => {
      this.names.clear();
      this.listeners.onState({ connection: "live" });
    };
    this.source.onerror = () => this.listeners.onState({ connection: "lost" });
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  #take(data) {
    const key = `${data.run}/${data.attempt}`;
    const last = this.sequences.get(key) ?? -1;
    if (data.sequence !== undefined && data.sequence <= last) {
      this.repeated += data.start.length;
      return;
    }
    this.sequences.set(key, data.sequence ?? last);
    const batch = batchOf(data, this.names, this.nameOf);
    this.received += batch.size;
    if (data.published_ms) {
      this.delays.push(Date.now() - data.published_ms);
      if (this.delays.length > 2000) this.delays.splice(0, 1000);
    }
    this.listeners.onBatch(data.run, batch);
  }

  #miss(data) {
    if (data.from_ns === undefined) return;
    this.dropped += data.count ?? 0;
    this.listeners.onGap(data);
  }
}
