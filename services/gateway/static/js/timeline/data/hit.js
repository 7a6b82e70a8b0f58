/** Which span is under the pointer. Pure. */

import { FAN } from "./pyramid.js";

const NEAR_PX = 3;

/**
 * The span of a row at a time, at most `near` ns away; of several the one that lasts longest.
 * @returns {number} -1 if there is none
 */
export function spanAt(row, time, near = 0) {
  let best = -1;
  visit(row, time - near, time + near, (span) => {
    if (best < 0 || row.duration[span] > row.duration[best]) best = span;
  });
  return best;
}

/** The span of a row that a pointer at a time means: one that is wider than a pixel (so many ns), else the longest near it. */
export function spanNear(row, time, pixel) {
  const exact = spanAt(row, time);
  const isWide = exact >= 0 && row.duration[exact] > pixel;
  return isWide ? exact : longestIn(row, time - NEAR_PX * pixel, time + NEAR_PX * pixel);
}

/** Call `action` with each span of a row that touches a stretch of time, in the order of start. */
export function visit(row, from, to, action) {
  const top = row.pyramid.levels.length - 1;
  if (top >= 0) descend(row, top, 0, row.pyramid.levels[top].count, from, to, action);
}

function descend(row, depth, first, last, from, to, action) {
  const level = row.pyramid.levels[depth];
  for (let node = first; node < last; node += 1) {
    if (level.end[node] < from) continue;
    if (level.start[node] > to) return;
    if (depth > 0) descend(row, depth - 1, node * FAN, Math.min(node * FAN + FAN, row.pyramid.levels[depth - 1].count), from, to, action);
    else for (let span = node * FAN; span < Math.min(node * FAN + FAN, row.size); span += 1) {
      if (row.start[span] <= to && row.end(span) >= from) action(span);
    }
  }
}

/** The longest span of a row that touches a stretch; costs a step a level where the stretch is long. */
export function longestIn(row, from, to) {
  let best = -1;
  const better = (span) => {
    if (best < 0 || row.duration[span] > row.duration[best]) best = span;
  };
  const search = (depth, first, last) => {
    const level = row.pyramid.levels[depth];
    for (let node = first; node < last; node += 1) {
      if (level.end[node] < from || (best >= 0 && row.duration[level.longest[node]] <= row.duration[best])) continue;
      if (level.start[node] > to) return;
      if (level.start[node] >= from && level.end[node] <= to) better(level.longest[node]);
      else if (depth > 0) search(depth - 1, node * FAN, Math.min(node * FAN + FAN, row.pyramid.levels[depth - 1].count));
      else for (let span = node * FAN; span < Math.min(node * FAN + FAN, row.size); span += 1) if (row.start[span] <= to && row.end(span) >= from) better(span);
    }
  };
  const top = row.pyramid.levels.length - 1;
  if (top >= 0) search(top, 0, row.pyramid.levels[top].count);
  return best;
}

/** The numbers of a row's spans that have one of the names (a byte for each name). */
export function spansNamed(row, isNamed) {
  const numbers = [];
  for (let span = 0; span < row.size; span += 1) if (isNamed[row.name[span]]) numbers.push(span);
  return Uint32Array.from(numbers);
}

/** Pixels with a hit: jumps from pixel to pixel, not from hit to hit. */
export function hitColumns(row, hits, window, width) {
  const columns = [];
  const length = (window.to - window.from) / width;
  const starts = { at: (place) => row.start[hits[place]] };
  let place = firstFrom(starts, hits.length, window.from);
  while (place < hits.length && starts.at(place) <= window.to) {
    const column = Math.floor((starts.at(place) - window.from) / length);
    columns.push(column);
    place = firstFrom(starts, hits.length, window.from + (column + 1) * length, place + 1);
  }
  return columns;
}

function firstFrom(starts, size, time, low = 0) {
  let high = size;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (starts.at(middle) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

