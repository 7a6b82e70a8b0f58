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
const DEPTHS = 256;

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

  /** Take sorted spans of a batch as the first of the row, without a copy where the types are equal. */
  adopt(batch, from, to) {
    this.size = to - from;
    for (const [name, [Kind, absent]] of Object.entries(COLUMNS)) {
      const values = batch[name];
      if (values instanceof Kind) this[name] = values.subarray(from, to);
      else this[name] = values ? Kind.from(values.slice(from, to)) : new Kind(this.size).fill(absent);
    }
    this.#counted(0);
  }

  /** Add spans of a batch, those whose places are in `order`, whatever their times. */
  extend(batch, order) {
    sortByStart(batch.start, order);
    this.#reserve(this.size + order.length);
    const first = batch.start[order[0]];
    const isLater = this.size === 0 || first >= this.start[this.size - 1];
    const at = isLater ? this.size : lowerBound(this.start, first, this.size);
    const sources = this.#merged(batch.start, order, at);
    for (let span = at; span < this.size; span += 1) this.spans -= this.count[span];
    for (const name of NAMES) gather(this[name], at, batch[name], sources, order, COLUMNS[name][1]);
    this.size += order.length;
    this.#counted(at);
  }

  #counted(from) {
    for (let span = from; span < this.size; span += 1) this.spans += this.count[span];
    this.pyramid.rebuild(this, from);
  }

  /**
   * Say what stands from `at` on once a batch is merged in: numbers from 0 are spans of the row
   * counted from `at`, negative ones are places in `order`, as -1 - place.
   */
  #merged(starts, order, at) {
    const sources = new Int32Array(this.size - at + order.length);
    let own = at, other = 0;
    for (let place = 0; place < sources.length; place += 1) {
      const isOther = own >= this.size || (other < order.length && starts[order[other]] < this.start[own]);
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

/** Sort places of a batch by start; what the server sends is nearly always sorted. */
function sortByStart(starts, order) {
  for (let place = 1; place < order.length; place += 1) {
    if (starts[order[place]] < starts[order[place - 1]]) {
      order.sort((a, b) => starts[a] - starts[b] || a - b);
      return;
    }
  }
}

function isSorted(starts, from, to) {
  for (let span = from + 1; span < to; span += 1) if (starts[span] < starts[span - 1]) return false;
  return true;
}

/** Stretches of a batch by the key of their row: spans of a row follow each other in long ones. */
function runsOf({ lane, depth, size }) {
  const runs = new Map();
  for (let from = 0; from < size; ) {
    const key = lane[from] * DEPTHS + Math.min(depth[from], DEPTHS - 1);
    let to = from + 1;
    while (to < size && lane[to] === lane[from] && depth[to] === depth[from]) to += 1;
    if (runs.has(key)) runs.get(key).push([from, to]);
    else runs.set(key, [[from, to]]);
    from = to;
  }
  return runs;
}

/** The places of several stretches. */
function orderOf(runs) {
  const order = new Uint32Array(runs.reduce((size, [from, to]) => size + to - from, 0));
  let place = 0;
  for (const [from, to] of runs) for (let span = from; span < to; span += 1) order[place++] = span;
  return order;
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
  /** @param {Store | null} other whose names this one shares */
  constructor(other = null) {
    /** @type {Map<number, Row>} by lane and depth */
    this.rows = new Map();
    /** @type {string[]} texts of names */
    this.names = other?.names ?? [];
    this.#numbers = other ? other.#numbers : new Map();
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
    return this.rows.get(lane * DEPTHS + depth);
  }

  /** The rows of a lane, from the outermost. */
  rowsOf(lane) {
    return [...this.rows.values()].filter((row) => row.lane === lane).sort((a, b) => a.depth - b.depth);
  }

  /** Add a batch: spans of any lanes, nearly in the order of time. @param {Batch} batch */
  append(batch) {
    for (const [key, runs] of runsOf(batch)) {
      const row = this.#rowOf(key);
      const [from, to] = runs[0];
      const isWhole = runs.length === 1 && row.size === 0 && isSorted(batch.start, from, to);
      if (isWhole) row.adopt(batch, from, to);
      else row.extend(batch, orderOf(runs));
      this.start = Math.min(this.start, row.start[0]);
      this.end = Math.max(this.end, row.pyramid.end);
    }
  }

  #rowOf(key) {
    if (!this.rows.has(key)) this.rows.set(key, new Row(Math.floor(key / DEPTHS), key % DEPTHS));
    return this.rows.get(key);
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
