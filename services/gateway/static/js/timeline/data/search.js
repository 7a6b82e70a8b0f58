/** Spans whose name contains a text: their names marked, their places by row, and the way from one to the next. */

import { spansNamed } from "./hit.js";

/** A byte for each name: whether it contains a text, in any case. */
export function named(names, text) {
  const wanted = text.toLowerCase();
  return Uint8Array.from(names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
}

/** The hits of a search. @returns {{marks: Uint8Array, rows: Map<object, Uint32Array>, count: number} | null} null without a text */
export function hitsOf(store, text) {
  if (!text.trim()) return null;
  const marks = named(store.names, text.trim());
  const rows = new Map();
  let count = 0;
  for (const row of store.rows.values()) {
    const spans = spansNamed(row, marks);
    if (spans.length) rows.set(row, spans);
    for (const span of spans) count += row.count[span];
  }
  return { marks, rows, count };
}

/** The hit that starts next after a time (`step` 1) or last before it (-1); goes round at the ends. */
export function hitAfter(hits, time, step) {
  let best = null, first = null;
  for (const [row, spans] of hits.rows) {
    for (const span of spans) {
      const isBefore = (place) => !place || (row.start[span] - place.row.start[place.span]) * step < 0;
      if ((row.start[span] - time) * step > 0 && isBefore(best)) best = { row, span };
      if (isBefore(first)) first = { row, span };
    }
  }
  return best ?? first;
}
