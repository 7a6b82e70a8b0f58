/** The view of a timeline in the address of its page: opened from it, kept in it, copied. */

import { queryOf, viewOf } from "./permalink.js";
import { fitted } from "./view.js";

const SMALL_SHARE = 0.2;
const NOTE_MS = 6000;

/** Show what the address asks for, else where the queries are. */
export function openAt(timeline, asked) {
  const { levels, parts } = timeline;
  timeline.goTo(asked.window ?? firstWindow(timeline), true);
  parts.search.value = asked.search;
  const place = placeOf(timeline, asked);
  if (place) timeline.select(place, !asked.window);
  if (place && asked.query !== null && !asked.window) timeline.commands.fit();
  timeline.awaited = place ? null : asked;
  if (!place && !levels.isPartial) sayMissing(timeline, asked);
}

/** The span that the address names, by its id or as a query by its number; null where it is not here. */
function placeOf(timeline, { selected, query }) {
  if (selected !== null) return timeline.store.locate(selected);
  if (query === null) return null;
  const places = queriesOf(timeline);
  return places.find(({ row, span }) => row.query[span] === query && row.count[span] <= 1) ?? null;
}

function sayMissing(timeline, { selected, query }) {
  const isLive = timeline.latest !== null || Boolean(timeline.feed);
  if (selected !== null) timeline.say(`Span ${selected} is not in this trace.`);
  else if (query !== null) note(timeline, isLive ? `Query ${query} was answered before this page looked; it is shown when the run has ended.` : `Query ${query} is not in this trace.`, isLive);
}

/** Single spans have come in the place of tiles; the address may name one that no tile showed. */
export function openAgain(timeline) {
  const { awaited, view } = timeline;
  if (awaited && (awaited.selected ?? awaited.query) !== null) openAt(timeline, { ...awaited, window: awaited.window ?? view.goal });
}

/** The whole run; the stretch of its queries where that is a small part of it, as beside counters of a long while. */
function firstWindow(timeline) {
  const { limits } = timeline.view;
  const { overview } = timeline.levels;
  const lane = laneOf(timeline, "query", "model");
  const rows = lane ? overview.rowsOf(lane.lane).filter((row) => row.size) : [];
  if (rows.length === 0) return limits;
  const from = Math.min(...rows.map((row) => row.start[0])), to = Math.max(...rows.map((row) => row.pyramid.end));
  if (to - from > SMALL_SHARE * (limits.to - limits.from)) return limits;
  note(timeline, "Shown is the time of the queries; 0 shows the whole run.");
  return fitted(from, to, limits);
}

/** The lane of the first of the levels that has one. */
function laneOf(timeline, ...levels) {
  const lanes = [...timeline.lanes.values()];
  return levels.map((name) => lanes.find(({ level }) => level === name)).find(Boolean);
}

/** Where the queries are: in the lane of the load, else of what the process did for each. */
export function queriesOf(timeline) {
  const lane = laneOf(timeline, "query", "application", "model");
  const rows = lane ? timeline.levels.overview.rowsOf(lane.lane) : [];
  return rows.flatMap((row) => Array.from({ length: row.size }, (_, span) => ({ row, span })));
}

export function keepAddress(timeline) {
  const { view: { goal, limits }, folding, parts } = timeline;
  const isWhole = timeline.isFollowing || (goal.from <= limits.from && goal.to >= limits.to);
  const view = {
    window: isWhole ? null : goal, selected: timeline.selectedId, query: timeline.awaited?.query ?? null, search: parts.search.value.trim(),
    pinned: [...folding.pinned], folded: folding.folded.size > 0 ? [...folding.folded] : null,
  };
  history.replaceState(history.state, "", location.pathname + queryOf(view, location.search) + location.hash);
}

export async function copyLink(timeline) {
  keepAddress(timeline);
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  note(timeline, "The link to this view is copied.");
}

/** Say something beside the count, for a few seconds unless it stays. */
function note(timeline, text, stays = false) {
  timeline.parts.note.textContent = text;
  clearTimeout(timeline.noted);
  if (!stays) timeline.noted = setTimeout(() => (timeline.parts.note.textContent = ""), NOTE_MS);
}

/** The view that the address of the page asks for. */
export const asked = () => viewOf(location.search);
