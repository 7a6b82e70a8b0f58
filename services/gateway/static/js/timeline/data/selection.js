/** What a selected span, or a selected stretch of time, is made of. Pure: looks into the store only. */

import { visit } from "./hit.js";

export const LAUNCH = 1;
const BINS = 24;
const MOST_CHILDREN = 200;

/** @typedef {{row: import("./store.js").Row, span: number}} Place */

/** The spans around a span, from the nearest. @returns {Place[]} */
export function ancestorsOf(store, { row, span }) {
  const places = [];
  let place = store.locate(row.parent[span]);
  while (place && places.length < 64) {
    places.push(place);
    place = store.locate(place.row.parent[place.span]);
  }
  return places;
}

/** The spans right below a span, by start, and how many there are in all. */
export function childrenOf(store, { row, span }) {
  const id = row.id[span];
  const places = [];
  let total = 0;
  if (id < 0) return { places, total };
  for (const below of store.rows.values()) {
    for (let child = below.parent.indexOf(id); child >= 0 && child < below.size; child = below.parent.indexOf(id, child + 1)) {
      total += 1;
      if (places.length < MOST_CHILDREN) places.push({ row: below, span: child });
    }
  }
  places.sort((a, b) => a.row.start[a.span] - b.row.start[b.span]);
  return { places, total };
}

/** The host's call that started work on a device, or the work that a call started. @returns {Place[]} */
export function flowOf(store, { row, span }) {
  const correlation = row.correlation[span];
  const places = [];
  if (correlation < 0) return places;
  const isLaunch = row.kind[span] === LAUNCH;
  for (const other of store.rows.values()) {
    for (let at = other.correlation.indexOf(correlation); at >= 0 && at < other.size && places.length < 64; at = other.correlation.indexOf(correlation, at + 1)) {
      if ((other.kind[at] === LAUNCH) !== isLaunch) places.push({ row: other, span: at });
    }
  }
  return places;
}

/** Rows of the lanes that have the level and group of a row's lane. */
function alike(store, lanes, row) {
  const own = lanes.get(row.lane);
  const isAlike = (other) => other && own && other.level === own.level && other.group === own.group;
  return [...store.rows.values()].filter((other) => other.lane === row.lane || isAlike(lanes.get(other.lane)));
}

/**
 * The durations of all spans of the same name and level, in ns, and a histogram of them.
 * `rank` is the share of them that take no longer than this span.
 */
export function sameName(store, lanes, { row, span }) {
  const name = row.name[span];
  const durations = [];
  for (const other of alike(store, lanes, row)) {
    for (let at = 0; at < other.size; at += 1) if (other.name[at] === name) durations.push(other.duration[at]);
  }
  const sorted = Float64Array.from(durations).sort();
  const quantile = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  const own = row.duration[span];
  let notLonger = 0;
  while (notLonger < sorted.length && sorted[notLonger] <= own) notLonger += 1;
  const total = sorted.reduce((sum, duration) => sum + duration, 0);
  return {
    count: sorted.length, total, rank: notLonger / sorted.length, least: sorted[0], median: quantile(0.5),
    p90: quantile(0.9), p99: quantile(0.99), most: sorted.at(-1), histogram: histogramOf(sorted),
  };
}

/** The median durations in ns of spans of the names and levels of some places, in their order; null where a name occurs once. */
export function mediansOf(store, lanes, places) {
  const levelOf = (row) => lanes.get(row.lane)?.level ?? "";
  const byLevel = new Map(places.map(({ row }) => [levelOf(row), new Map()]));
  for (const { row, span } of places) byLevel.get(levelOf(row)).set(row.name[span], []);
  for (const row of store.rows.values()) {
    const byName = byLevel.get(levelOf(row));
    for (let at = 0; byName && at < row.size; at += 1) byName.get(row.name[at])?.push(row.duration[at]);
  }
  return places.map(({ row, span }) => {
    const sorted = Float64Array.from(byLevel.get(levelOf(row)).get(row.name[span])).sort();
    return sorted.length > 1 ? sorted[Math.floor(sorted.length / 2)] : null;
  });
}

/** Counts in equal bins from the least to the 99th percentile; longer ones are in the last bin. */
export function histogramOf(sorted) {
  const low = sorted[0];
  const high = sorted[Math.min(sorted.length - 1, Math.floor(0.99 * sorted.length))];
  const width = (high - low) / BINS || 1;
  const counts = new Uint32Array(high > low ? BINS : 1);
  for (const duration of sorted) counts[Math.min(counts.length - 1, Math.floor((duration - low) / width))] += 1;
  return { low, high, width, counts };
}

/** The span of the same name that starts next (`step` 1) or before (-1). @returns {Place | null} */
export function neighbourOf(store, lanes, { row, span }, step) {
  const name = row.name[span], start = row.start[span];
  let best = null;
  for (const other of alike(store, lanes, row)) {
    const isNearer = (at) => !best || (other.start[at] - best.row.start[best.span]) * step < 0;
    for (let at = 0; at < other.size; at += 1) {
      if (other.name[at] !== name || (other === row && at === span)) continue;
      const isBeyond = (other.start[at] - start) * step > 0 || (other.start[at] === start && other === row && (at - span) * step > 0);
      if (isBeyond && isNearer(at)) best = { row: other, span: at };
    }
  }
  return best;
}

/**
 * What a stretch of time is made of: for each level and name the count and the time inside it.
 * @returns {{level: string, name: number, count: number, busy: number, share: number}[]} by busy time
 */
export function composition(store, lanes, from, to) {
  const parts = new Map();
  for (const row of store.rows.values()) {
    const lane = lanes.get(row.lane);
    if (!lane || lane.group === "counter") continue;
    visit(row, from, to, (span) => {
      const key = `${lane.level}/${row.name[span]}`;
      const part = parts.get(key) ?? { level: lane.level, group: lane.group, name: row.name[span], count: 0, busy: 0 };
      const inside = Math.min(row.end(span), to) - Math.max(row.start[span], from);
      part.count += row.count[span];
      part.busy += inside * row.busy[span];
      parts.set(key, part);
    });
  }
  const length = Math.max(to - from, 1);
  return [...parts.values()].map((part) => ({ ...part, share: part.busy / length })).sort((a, b) => b.busy - a.busy);
}

/** A heap of things by size, the largest first. */
class Heap {
  #entries = [];

  get size() {
    return this.#entries.length;
  }

  push(size, thing) {
    const entries = this.#entries;
    let at = entries.push([size, thing]) - 1;
    for (let above = (at - 1) >> 1; at > 0 && entries[above][0] < entries[at][0]; above = (at - 1) >> 1) {
      [entries[above], entries[at]] = [entries[at], entries[above]];
      at = above;
    }
  }

  pop() {
    const entries = this.#entries;
    const first = entries[0];
    const last = entries.pop();
    if (entries.length === 0) return first[1];
    entries[0] = last;
    for (let at = 0; ; ) {
      const left = 2 * at + 1;
      const larger = left + 1 < entries.length && entries[left + 1][0] > entries[left][0] ? left + 1 : left;
      if (larger >= entries.length || entries[larger][0] <= entries[at][0]) return first[1];
      [entries[at], entries[larger]] = [entries[larger], entries[at]];
      at = larger;
    }
  }
}

/** The longest spans of some rows that touch a window, longest first. @returns {Place[]} */
export function longestSpans(rows, window, most) {
  const heap = new Heap();
  const isIn = (start, end) => start <= window.to && end >= window.from;
  const pushNodes = (row, depth, first, last) => {
    const level = row.pyramid.levels[depth];
    for (let node = first; node < Math.min(last, level.count); node += 1) {
      if (isIn(level.start[node], level.end[node])) heap.push(row.duration[level.longest[node]], { row, depth, node });
    }
  };
  for (const row of rows) if (row.size) pushNodes(row, row.pyramid.levels.length - 1, 0, Infinity);
  const places = [];
  while (heap.size && places.length < most) {
    const { row, depth, node, span } = heap.pop();
    if (span !== undefined) places.push({ row, span });
    else if (depth > 0) pushNodes(row, depth - 1, node * 8, node * 8 + 8);
    else for (let at = node * 8; at < Math.min(node * 8 + 8, row.size); at += 1) if (isIn(row.start[at], row.end(at))) heap.push(row.duration[at], { row, span: at });
  }
  return places;
}
