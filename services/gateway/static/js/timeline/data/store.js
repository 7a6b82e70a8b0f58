/**
 * All spans of a trace, by row: a row is one nesting depth of one lane, sorted by start.
 *
 * A row is a struct of typed arrays that double when they are full. Nothing is kept per span but its
 * numbers. Times are nanoseconds from the run's origin; names are numbers into `Store.names`.
 */

import { Pyramid } from "./pyramid.js";

/** Columns of a row and of a batch, with their defaults where a batch has none. */
export const COLUMNS = {
  start: [Float64Array, 0],
  duration: [Float64Array, 0],
  name: [Uint32Array, 0],
  id: [Float64Array, -1],
  parent: [Float64Array, -1],
  query: [Int32Array, -1],
  kind: [Uint8Array, 0],
  correlation: [Float64Array, -1],
  count: [Uint32Array, 1],
  busy: [Float32Array, 1],
  value: [Float64Array, 0],
};
const NAMES = Object.keys(COLUMNS);
const MOST_DEPTH = 255;

/**
 * Spans in columns of equal length; `lane`, `depth`, `start`, `duration` and `name` are always there.
 * @typedef {{size: number, lane: ArrayLike<number>, depth: ArrayLike<number>, [column: string]: any}} Batch
 */

/** The number of the first of `size` sorted values that is not less than `value`. */
export function lowerBound(values, value, size = values.length) {
  let low = 0, high = size;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Row {
  constructor(lane, depth, capacity = 16) {
    this.lane = lane;
    this.depth = depth;
    this.size = 0;
    /** spans that the row stands for: tiles stand for several */
    this.spans = 0;
    this.pyramid = new Pyramid();
    for (const [name, [Kind]] of Object.entries(COLUMNS)) this[name] = new Kind(capacity);
  }

  end(span) {
    return this.start[span] + this.duration[span];
  }

  /** Add spans of a batch, those numbered in `order` between `from` and `to`, whatever their times. */
  extend(batch, order, from, to) {
    sortByStart(batch.start, order, from, to);
    this.#reserve(this.size + to - from);
    const first = batch.start[order[from]];
    const isLater = this.size === 0 || first >= this.start[this.size - 1];
    const at = isLater ? this.size : lowerBound(this.start, first, this.size);
    const sources = this.#merged(batch.start, order, from, to, at);
    for (const name of NAMES) gather(this[name], at, batch[name], sources, order, COLUMNS[name][1]);
    this.size += to - from;
    for (let span = from; span < to; span += 1) this.spans += batch.count ? batch.count[order[span]] : 1;
    this.pyramid.rebuild(this, at);
  }

  /**
   * Say what stands from `at` on once a batch is merged in: numbers from 0 are spans of the row
   * counted from `at`, negative ones are places in `order`, as -1 - place.
   */
  #merged(starts, order, from, to, at) {
    const sources = new Int32Array(this.size - at + to - from);
    let own = at, other = from;
    for (let place = 0; place < sources.length; place += 1) {
      const isOther = own >= this.size || (other < to && starts[order[other]] < this.start[own]);
      sources[place] = isOther ? -1 - other++ : own++ - at;
    }
    return sources;
  }

  #reserve(size) {
    if (size <= this.start.length) return;
    const capacity = Math.max(size, this.start.length * 2);
    for (const [name, [Kind]] of Object.entries(COLUMNS)) {
      const larger = new Kind(capacity);
      larger.set(this[name].subarray(0, this.size));
      this[name] = larger;
    }
  }
}

/** Sort a part of `order` by start; what the server sends is nearly always sorted. */
function sortByStart(starts, order, from, to) {
  for (let place = from + 1; place < to; place += 1) {
    if (starts[order[place]] < starts[order[place - 1]]) {
      order.subarray(from, to).sort((a, b) => starts[a] - starts[b] || a - b);
      return;
    }
  }
}

/** Write a column from `at` on, from its own later part and from a batch's column. */
function gather(column, at, added, sources, order, absent) {
  const size = sources.length;
  const later = sources.some((source) => source >= 0) ? column.slice(at, at + size) : null;
  if (!added) for (let place = 0; place < size; place += 1) column[at + place] = sources[place] < 0 ? absent : later[sources[place]];
  else for (let place = 0; place < size; place += 1) {
    const source = sources[place];
    column[at + place] = source < 0 ? added[order[-1 - source]] : later[source];
  }
}

export class Store {
  constructor() {
    /** @type {Map<number, Row>} by lane and depth */
    this.rows = new Map();
    /** @type {string[]} texts of names */
    this.names = [];
    this.#numbers = new Map();
    this.start = Infinity;
    this.end = 0;
  }

  /** @type {Map<string, number>} */
  #numbers;

  /** The number of a name; a new text gets the next number. */
  nameOf(text) {
    let number = this.#numbers.get(text);
    if (number === undefined) {
      number = this.names.push(text) - 1;
      this.#numbers.set(text, number);
    }
    return number;
  }

  /** Spans held or stood for. */
  get spans() {
    let total = 0;
    for (const row of this.rows.values()) total += row.spans;
    return total;
  }

  /** Rows held: spans and tiles. */
  get size() {
    let total = 0;
    for (const row of this.rows.values()) total += row.size;
    return total;
  }

  row(lane, depth) {
    return this.rows.get(lane * (MOST_DEPTH + 1) + depth);
  }

  /** The rows of a lane, from the outermost. */
  rowsOf(lane) {
    return [...this.rows.values()].filter((row) => row.lane === lane).sort((a, b) => a.depth - b.depth);
  }

  /** Add a batch: spans of any lanes, nearly in the order of time. @param {Batch} batch */
  append(batch) {
    const { numbers, sizes } = this.#share(batch);
    const ends = new Map();
    let total = 0;
    for (const [key, size] of sizes) ends.set(key, [total, (total += size)]);
    const places = new Map([...ends].map(([key, [from]]) => [key, from]));
    const order = new Uint32Array(batch.size);
    for (let span = 0; span < batch.size; span += 1) {
      const place = places.get(numbers[span]);
      order[place] = span;
      places.set(numbers[span], place + 1);
    }
    for (const [key, [from, to]] of ends) {
      if (!this.rows.has(key)) this.rows.set(key, new Row(Math.floor(key / (MOST_DEPTH + 1)), key % (MOST_DEPTH + 1), to - from));
      const row = this.rows.get(key);
      row.extend(batch, order, from, to);
      this.start = Math.min(this.start, row.start[0]);
      this.end = Math.max(this.end, row.pyramid.end);
    }
  }

  /** The row's key of each span, and how many spans each row gets. */
  #share(batch) {
    const numbers = new Uint32Array(batch.size);
    const sizes = new Map();
    for (let span = 0; span < batch.size; span += 1) {
      const key = batch.lane[span] * (MOST_DEPTH + 1) + Math.min(batch.depth[span], MOST_DEPTH);
      numbers[span] = key;
      sizes.set(key, (sizes.get(key) ?? 0) + 1);
    }
    return { numbers, sizes };
  }

  /** Where the span of an id is. @returns {{row: Row, span: number} | null} */
  locate(id) {
    if (!(id >= 0)) return null;
    for (const row of this.rows.values()) {
      const span = row.id.indexOf(id);
      if (span >= 0 && span < row.size) return { row, span };
    }
    return null;
  }
}
