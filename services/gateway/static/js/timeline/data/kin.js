/**
 * What stands around a span, and what it started on a device, also where no parent was recorded:
 * spans of one thread lie inside each other, and a launch shares its correlation with its work. Pure.
 */

import { spanAt, visit } from "./hit.js";
import { LAUNCH, ancestorsOf, childrenOf, flowOf } from "./selection.js";

/** @typedef {import("./selection.js").Place} Place */

/** The spans around a span, from the nearest: those recorded as such, else those of its thread around it. */
export function spansAround(store, lanes, place) {
  const recorded = ancestorsOf(store, place);
  if (recorded.length) return recorded;
  const lane = lanes.get(place.row.lane);
  if (lane?.group === "device") {
    const [launch] = flowOf(store, place);
    return launch ? [launch, ...spansAround(store, lanes, launch)] : [];
  }
  return lane?.group === "host" ? around(store, lanes, place, lane.thread) : [];
}

/** Spans of a thread that hold a span whole, the shortest first. */
function around(store, lanes, { row, span }, thread) {
  const start = row.start[span], end = row.end(span);
  const places = [];
  for (const other of store.rows.values()) {
    const lane = lanes.get(other.lane);
    if (lane?.group !== "host" || lane.thread !== thread) continue;
    const at = spanAt(other, start);
    const holds = at >= 0 && other.start[at] <= start && other.end(at) >= end;
    if (holds && !(other === row && at === span)) places.push({ row: other, span: at });
  }
  return places.sort((a, b) => a.row.duration[a.span] - b.row.duration[b.span]);
}

/** The work on devices that calls inside a span of the host started, longest first. @returns {Place[]} */
export function startedInside(store, lanes, { row, span }) {
  const lane = lanes.get(row.lane);
  if (lane?.group !== "host") return [];
  const started = new Set();
  for (const other of store.rows.values()) {
    const own = lanes.get(other.lane);
    if (own?.group !== "host" || own.thread !== lane.thread) continue;
    visit(other, row.start[span], row.end(span), (at) => {
      const isInside = other.start[at] >= row.start[span] && other.end(at) <= row.end(span);
      if (isInside && other.kind[at] === LAUNCH && other.correlation[at] >= 0) started.add(other.correlation[at]);
    });
  }
  return started.size ? workOf(store, lanes, started) : [];
}

function workOf(store, lanes, started) {
  const places = [];
  for (const row of store.rows.values()) {
    if (lanes.get(row.lane)?.group !== "device") continue;
    for (let span = 0; span < row.size; span += 1) if (started.has(row.correlation[span])) places.push({ row, span });
  }
  return places.sort((a, b) => b.row.duration[b.span] - a.row.duration[a.span]);
}

/** The next level down: the spans inside a span, else what was done for a query, else the work that was started. @returns {Place[]} */
export function levelBelow(store, lanes, place) {
  const { places } = childrenOf(store, place);
  if (places.length) return places;
  const parts = partsOfQuery(store, lanes, place);
  if (parts.length) return parts;
  return place.row.kind[place.span] === LAUNCH ? flowOf(store, place) : startedInside(store, lanes, place);
}

/** The next level up: the nearest span around a span, else the query of the load that it was done for. @returns {Place | null} */
export function levelAbove(store, lanes, place) {
  return spansAround(store, lanes, place)[0] ?? queryOf(store, lanes, place);
}

function queryOf(store, lanes, { row, span }) {
  const query = row.query[span];
  let place = null;
  for (const other of query < 0 ? [] : store.rows.values()) {
    const lane = lanes.get(other.lane);
    if (other === row || lane?.group !== "load" || lane.level !== "query") continue;
    visit(other, row.start[span], row.end(span), (at) => other.query[at] === query && (place = { row: other, span: at }));
  }
  return place;
}

/** What the host did for a query of the load: the outermost spans of its number, by start. @returns {Place[]} */
export function partsOfQuery(store, lanes, place) {
  return ofQuery(store, lanes, place, ["application", "model"]).sort((a, b) => a.row.start[a.span] - b.row.start[b.span]);
}

/** The outermost layers of a query of the load, the longest first; none of those that are drawn as one. @returns {Place[]} */
export function layersOfQuery(store, lanes, place) {
  const layers = ofQuery(store, lanes, place, ["layer"]).filter(({ row, span }) => row.count[span] <= 1);
  return layers.sort((a, b) => b.row.duration[b.span] - a.row.duration[a.span]);
}

function ofQuery(store, lanes, { row, span }, levels) {
  const query = row.query[span];
  if (lanes.get(row.lane)?.group !== "load" || query < 0) return [];
  const places = [];
  for (const other of store.rows.values()) {
    const lane = lanes.get(other.lane);
    if (lane?.group !== "host" || !levels.includes(lane.level) || other.depth > 0) continue;
    visit(other, row.start[span], row.end(span), (at) => other.query[at] === query && places.push({ row: other, span: at }));
  }
  return places;
}
