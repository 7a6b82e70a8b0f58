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
  const place = asked.selected === null ? null : timeline.store.locate(asked.selected);
  if (place) timeline.select(place, !asked.window);
  else if (asked.selected !== null && !levels.isPartial) timeline.say(`Span ${asked.selected} is not in this trace.`);
  timeline.awaited = place ? null : asked;
}

/** Single spans have come in the place of tiles; the address may name one that no tile showed. */
export function openAgain(timeline) {
  const { awaited, view } = timeline;
  if (awaited?.selected != null) openAt(timeline, { ...awaited, window: awaited.window ?? view.goal });
}

/** The whole run; the stretch of its queries where that is a small part of it, as beside counters of a long while. */
function firstWindow(timeline) {
  const { limits } = timeline.view;
  const { overview } = timeline.levels;
  const lanes = [...timeline.lanes.values()];
  const lane = lanes.find(({ level }) => level === "query") ?? lanes.find(({ level }) => level === "model");
  const rows = lane ? overview.rowsOf(lane.lane).filter((row) => row.size) : [];
  if (rows.length === 0) return limits;
  const from = Math.min(...rows.map((row) => row.start[0])), to = Math.max(...rows.map((row) => row.pyramid.end));
  if (to - from > SMALL_SHARE * (limits.to - limits.from)) return limits;
  note(timeline, "Shown is the time of the queries; 0 shows the whole run.");
  return fitted(from, to, limits);
}

export function keepAddress(timeline) {
  const { view: { goal, limits }, folding, parts } = timeline;
  const isWhole = timeline.isFollowing || (goal.from <= limits.from && goal.to >= limits.to);
  const view = {
    window: isWhole ? null : goal, selected: timeline.selectedId, search: parts.search.value.trim(),
    pinned: [...folding.pinned], folded: folding.folded.size > 0 ? [...folding.folded] : null,
  };
  history.replaceState(history.state, "", location.pathname + queryOf(view, location.search) + location.hash);
}

export async function copyLink(timeline) {
  keepAddress(timeline);
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  note(timeline, "The link to this view is copied.");
}

function note(timeline, text) {
  timeline.parts.note.textContent = text;
  clearTimeout(timeline.noted);
  timeline.noted = setTimeout(() => (timeline.parts.note.textContent = ""), NOTE_MS);
}

/** The view that the address of the page asks for. */
export const asked = () => viewOf(location.search);
