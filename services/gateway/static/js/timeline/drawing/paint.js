/**
 * Spans of a row as a line of pixels, without a canvas: as many steps as there are pixels.
 *
 * A span of a pixel or more is filled; shorter ones that share a pixel become one: the colour of the
 * longest, the paler the less of the pixel they cover, and never too pale to see.
 */

import { FAN } from "../data/pyramid.js";

const PALEST = 0.38;
const NODES_OF_SPANS = 0;

/** Wide spans of one frame: row, span, first and last pixel; reused from frame to frame. */
export class WideSpans {
  constructor() {
    this.data = new Int32Array(4 * 1024);
    this.size = 0;
  }

  add(line, span, from, to) {
    if (4 * this.size === this.data.length) {
      const larger = new Int32Array(2 * this.data.length);
      larger.set(this.data);
      this.data = larger;
    }
    this.data.set([line, span, from, to], 4 * this.size);
    this.size += 1;
  }
}

/** Mix two opaque colours (0xffbbggrr): `share` of the first. */
export function mixed(colour, paper, share) {
  const other = 1 - share;
  const red = ((colour & 255) * share + (paper & 255) * other) | 0;
  const green = (((colour >> 8) & 255) * share + ((paper >> 8) & 255) * other) | 0;
  const blue = (((colour >> 16) & 255) * share + ((paper >> 16) & 255) * other) | 0;
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}

/**
 * Paints rows into lines of pixels.
 *
 * `colours[name]` and `paper` are opaque (0xffbbggrr); pixels without spans stay as they were.
 */
export class Painter {
  /** @param {Uint32Array} pixels all lines, one after the other @param {number} width of a line */
  constructor(pixels, width, paper) {
    this.pixels = pixels;
    this.width = width;
    this.paper = paper;
    this.wide = new WideSpans();
    /** nodes and spans looked at: what a frame costs */
    this.steps = 0;
  }

  /** Paint a row into line number `line`; spans of `label` pixels or more go to `wide`. */
  paint(row, window, colours, line, label) {
    this.row = row;
    this.window = window;
    this.colours = colours;
    this.line = line;
    this.label = label;
    this.scale = this.width / (window.to - window.from);
    this.column = -1;
    const top = row.pyramid.levels.length - 1;
    if (top >= 0 && row.size > 0) this.#visit(top, 0, row.pyramid.levels[top].count);
    this.#flush();
  }

  #visit(depth, first, last) {
    const level = this.row.pyramid.levels[depth];
    const { from, to } = this.window;
    this.steps += last - first;
    for (let node = first; node < last; node += 1) {
      const start = level.start[node], end = level.end[node];
      if (end < from) continue;
      if (start > to) return;
      if ((end - start) * this.scale <= 1) {
        this.#gather(start, level.longest[node], level.busy[node]);
      } else if (depth === NODES_OF_SPANS) {
        this.#spans(node * FAN, Math.min(node * FAN + FAN, this.row.size));
      } else {
        const below = this.row.pyramid.levels[depth - 1].count;
        this.#visit(depth - 1, node * FAN, Math.min(node * FAN + FAN, below));
      }
    }
  }

  #spans(first, last) {
    const { row, window, scale } = this;
    this.steps += last - first;
    for (let span = first; span < last; span += 1) {
      const start = row.start[span], duration = row.duration[span];
      if (start + duration < window.from) continue;
      if (start > window.to) return;
      if (duration * scale < 1) this.#gather(start, span, duration * row.busy[span]);
      else this.#fill(span, start, duration);
    }
  }

  #gather(start, span, busy) {
    const column = Math.floor((start - this.window.from) * this.scale);
    if (column !== this.column) {
      this.#flush();
      this.column = column;
      this.longest = span;
      this.busy = 0;
    } else if (this.row.duration[span] > this.row.duration[this.longest]) {
      this.longest = span;
    }
    this.busy += busy;
  }

  #flush() {
    const column = Math.max(this.column, 0);
    if (this.column < -1 || column >= this.width || this.column === -1) {
      this.column = -1;
      return;
    }
    const share = Math.min(1, PALEST + (1 - PALEST) * this.busy * this.scale);
    const colour = this.colours[this.row.name[this.longest]];
    this.pixels[this.line * this.width + column] = mixed(colour, this.paper, share);
    this.column = -1;
  }

  #fill(span, start, duration) {
    this.#flush();
    const { row, width, scale, window } = this;
    const from = Math.round((start - window.from) * scale);
    const to = Math.max(Math.round((start + duration - window.from) * scale), from + 1);
    const first = Math.max(from, 0), last = Math.min(to, width);
    if (last <= first) return;
    const share = row.busy[span] >= 1 ? 1 : PALEST + (1 - PALEST) * row.busy[span];
    const colour = mixed(this.colours[row.name[span]], this.paper, share);
    // Neighbours stay apart by a pixel where there is room.
    const gap = to - from >= 4 && to <= width ? 1 : 0;
    const offset = this.line * width;
    this.pixels.fill(colour, offset + first, offset + last - gap);
    if (last - first >= this.label) this.wide.add(this.line, span, first, last);
  }
}

/** The least and greatest value of a counter in each pixel, NaN where nothing was sampled. */
export function sampled(row, window, width) {
  const low = new Float64Array(width).fill(NaN);
  const high = new Float64Array(width).fill(NaN);
  const scale = width / (window.to - window.from);
  let before = NaN;
  const add = (start, least, most) => {
    const column = Math.floor((start - window.from) * scale);
    if (column < 0) before = most;
    if (column < 0 || column >= width) return;
    low[column] = Number.isNaN(low[column]) ? least : Math.min(low[column], least);
    high[column] = Number.isNaN(high[column]) ? most : Math.max(high[column], most);
  };
  const visit = (depth, first, last) => {
    const level = row.pyramid.levels[depth];
    for (let node = first; node < last; node += 1) {
      const isAlone = (level.end[node] - level.start[node]) * scale <= 1 || level.end[node] < window.from;
      if (level.start[node] > window.to) return;
      if (isAlone && level.end[node] >= window.from) add(level.start[node], level.low[node], level.high[node]);
      else if (depth === NODES_OF_SPANS) for (let span = node * FAN; span < Math.min(node * FAN + FAN, row.size); span += 1) add(row.start[span], row.value[span], row.value[span]);
      else if (level.end[node] >= window.from || node === last - 1 || level.start[node + 1] > window.from) visit(depth - 1, node * FAN, Math.min(node * FAN + FAN, row.pyramid.levels[depth - 1].count));
    }
  };
  const top = row.pyramid.levels.length - 1;
  if (top >= 0) visit(top, 0, row.pyramid.levels[top].count);
  return { low, high, before };
}
