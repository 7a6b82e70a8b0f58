/** What keys and buttons do with a timeline. Each command is named in the table of keys. */

import { copyLink, queriesOf } from "./address.js";
import { longestIn } from "./data/hit.js";
import { groupOf } from "./drawing/layout.js";
import { hitAfter } from "./data/search.js";
import { levelAbove, levelBelow } from "./data/kin.js";
import { neighbourOf } from "./data/selection.js";
import { fitted, panned, zoomed } from "./view.js";

const ZOOM = 0.6;
const PAN = 0.25;

/** @param {import("./timeline.js").Timeline} timeline @returns {Record<string, () => void>} */
export function commandsOf(timeline) {
  const { view } = timeline;
  const length = () => view.goal.to - view.goal.from;
  const middle = () => {
    const place = timeline.selected;
    if (!place) return (view.goal.from + view.goal.to) / 2;
    const at = place.row.start[place.span] + place.row.duration[place.span] / 2;
    return at > view.goal.from && at < view.goal.to ? at : (view.goal.from + view.goal.to) / 2;
  };
  const zoom = (factor) => timeline.goTo(zoomed(view.goal, view.limits, middle(), factor));
  const pan = (share) => timeline.goTo(panned(view.goal, view.limits, length() * share));
  const ofName = (step) => {
    const place = timeline.selected && neighbourOf(timeline.store, timeline.lanes, timeline.selected, step);
    if (place) timeline.select(place);
  };
  const beside = (step) => {
    const place = timeline.selected;
    const span = place ? place.span + step : -1;
    if (place && span >= 0 && span < place.row.size) timeline.select({ row: place.row, span });
    else if (!place) selectFirst(timeline);
  };
  const hit = (step) => {
    const place = timeline.selected;
    const time = place ? place.row.start[place.span] : step > 0 ? view.goal.from : view.goal.to;
    if (timeline.hits?.count) timeline.select(hitAfter(timeline.hits, time, step));
  };
  return {
    zoomIn: () => zoom(ZOOM),
    zoomOut: () => zoom(1 / ZOOM),
    earlier: () => pan(-PAN),
    later: () => pan(PAN),
    whole: () => timeline.goTo(view.limits),
    fit: () => fit(timeline),
    slowest: () => showQuery(timeline, 1),
    typical: () => showQuery(timeline, 0.5),
    previousOfName: () => ofName(-1),
    nextOfName: () => ofName(1),
    before: () => beside(-1),
    after: () => beside(1),
    child: () => enterChild(timeline),
    parent: () => leaveToParent(timeline),
    mark: () => timeline.setMarking(!timeline.isMarking),
    pin: () => timeline.selected && timeline.pin(keyOf(timeline)),
    expand: () => timeline.selected && timeline.fold(keyOf(timeline)),
    follow: () => timeline.setFollowing(!timeline.isFollowing),
    search: () => timeline.parts.search.focus(),
    nextHit: () => hit(1),
    previousHit: () => hit(-1),
    copyLink: () => copyLink(timeline),
    clear: () => timeline.clear(),
    help: () => timeline.parts.help.showModal(),
  };
}

function keyOf(timeline) {
  const lane = timeline.lanes.get(timeline.selected.row.lane);
  return timeline.folding.folded.has(groupOf(lane)) ? groupOf(lane) : lane.key;
}

function fit(timeline) {
  const { range, selected, view } = timeline;
  if (range) timeline.goTo(fitted(range.from, range.to, view.limits));
  else if (selected) timeline.goTo(fitted(selected.row.start[selected.span], selected.row.end(selected.span), view.limits));
}

/** Select the query at a quantile of duration, and zoom to it. */
function showQuery(timeline, share) {
  const places = queriesOf(timeline);
  if (places.length === 0) return;
  places.sort((a, b) => a.row.duration[a.span] - b.row.duration[b.span]);
  timeline.select(places[Math.min(places.length - 1, Math.floor(share * places.length))]);
  fit(timeline);
}

/** Select the longest span on the screen of the first lane that has any. */
function selectFirst(timeline) {
  const { goal } = timeline.view;
  for (const { lane } of timeline.layout.blocks) {
    const row = lane && timeline.store.row(lane.lane, 0);
    const span = row ? longestIn(row, goal.from, goal.to) : -1;
    if (span >= 0) {
      timeline.select({ row, span });
      return;
    }
  }
}

function enterChild(timeline) {
  if (!timeline.selected) {
    selectFirst(timeline);
    return;
  }
  const places = levelBelow(timeline.store, timeline.lanes, timeline.selected);
  const longer = (a, b) => (b.row.duration[b.span] > a.row.duration[a.span] ? b : a);
  if (places.length) timeline.select(places.reduce(longer));
}

function leaveToParent(timeline) {
  const { selected } = timeline;
  const parent = selected && levelAbove(timeline.store, timeline.lanes, selected);
  if (parent) timeline.select(parent);
}
