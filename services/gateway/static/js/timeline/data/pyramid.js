/**
 * A pyramid over the spans of one row, so that drawing costs what is on the screen, not what is stored.
 *
 * A node covers eight spans, or eight nodes of the level below: its extent, its longest span, how much
 * of it is busy, and the least and greatest value (of counters). It grows with its row.
 */

const SHIFT = 3;
export const FAN = 1 << SHIFT;

/** @typedef {{start: Float64Array, end: Float64Array, longest: Uint32Array, busy: Float64Array, low: Float64Array, high: Float64Array, count: number}} Level */

/** @returns {Level} an empty level with room for `capacity` nodes */
function levelOf(capacity) {
  return {
    start: new Float64Array(capacity),
    end: new Float64Array(capacity),
    longest: new Uint32Array(capacity),
    busy: new Float64Array(capacity),
    low: new Float64Array(capacity),
    high: new Float64Array(capacity),
    count: 0,
  };
}

/** Make room in a level for `count` nodes. */
function reserved(level, count) {
  if (level.start.length >= count) return level;
  const larger = levelOf(Math.max(count, level.start.length * 2));
  for (const name of ["start", "end", "longest", "busy", "low", "high"]) larger[name].set(level[name]);
  larger.count = level.count;
  return larger;
}

export class Pyramid {
  constructor() {
    /** @type {Level[]} from the finest level to the coarsest, which has at most eight nodes */
    this.levels = [];
  }

  /** Compute anew what covers the spans of `row` from number `from` on. */
  rebuild(row, from) {
    let below = row.size;
    let first = from;
    for (let depth = 0; below > FAN || depth === 0; depth += 1) {
      const nodes = (below + FAN - 1) >> SHIFT;
      first >>= SHIFT;
      this.levels[depth] = reserved(this.levels[depth] ?? levelOf(Math.max(nodes, FAN)), nodes);
      const level = this.levels[depth];
      for (let node = first; node < nodes; node += 1) {
        if (depth === 0) coverSpans(level, node, row.size, row);
        else coverNodes(level, node, this.levels[depth - 1], row.duration);
      }
      level.count = nodes;
      below = nodes;
    }
  }

  /** @returns {number} the latest end of all spans, 0 without any */
  get end() {
    const top = this.levels.at(-1);
    let end = 0;
    for (let node = 0; node < (top?.count ?? 0); node += 1) end = Math.max(end, top.end[node]);
    return end;
  }
}

function coverSpans(level, node, size, { start, duration, busy: shares, value }) {
  const first = node << SHIFT;
  const last = Math.min(first + FAN, size);
  let longest = first, end = -Infinity, busy = 0, low = Infinity, high = -Infinity;
  for (let span = first; span < last; span += 1) {
    const length = duration[span], amount = value[span];
    if (length > duration[longest]) longest = span;
    if (start[span] + length > end) end = start[span] + length;
    busy += length * shares[span];
    if (amount < low) low = amount;
    if (amount > high) high = amount;
  }
  set(level, node, start[first], end, longest, busy, low, high);
}

function coverNodes(level, node, below, duration) {
  const first = node << SHIFT;
  const last = Math.min(first + FAN, below.count);
  let longest = below.longest[first], end = -Infinity, busy = 0, low = Infinity, high = -Infinity;
  for (let child = first; child < last; child += 1) {
    if (duration[below.longest[child]] > duration[longest]) longest = below.longest[child];
    end = Math.max(end, below.end[child]);
    busy += below.busy[child];
    low = Math.min(low, below.low[child]);
    high = Math.max(high, below.high[child]);
  }
  set(level, node, below.start[first], end, longest, busy, low, high);
}

function set(level, node, start, end, longest, busy, low, high) {
  level.start[node] = start;
  level.end[node] = end;
  level.longest[node] = longest;
  level.busy[node] = busy;
  level.low[node] = low;
  level.high[node] = high;
}
