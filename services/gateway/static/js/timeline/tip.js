/** The name and duration of the span under the pointer, beside it. */

import { count, duration, shortened, titleOf } from "./format.js";

const NAME_LETTERS = 120;
const AWAY_X = 14;
const AWAY_Y = 18;

/** Show what is at a point of the canvas; without a place the tip goes away. */
export function showTip({ tip, lanes, gutter }, store, place, x, y) {
  tip.hidden = !place;
  if (!place) return;
  const { row, span } = place;
  const stands = row.count[span] > 1 ? ` · stands for ${count(row.count[span])} spans` : "";
  tip.textContent = `${shortened(titleOf(store, place), NAME_LETTERS)} · ${duration(row.duration[span])}${stands}`;
  const left = gutter.offsetWidth + x + AWAY_X, most = lanes.clientWidth - tip.offsetWidth - 4;
  tip.style.transform = `translate(${Math.max(0, Math.min(left, most))}px, ${lanes.offsetTop + y + AWAY_Y}px)`;
}
