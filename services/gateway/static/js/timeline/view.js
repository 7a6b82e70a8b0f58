/** The window of time on the screen: pure functions from a window to the next. Times are ns. */

/** @typedef {{from: number, to: number}} Window */

export const LEAST_NS = 20;

/** Keep a window inside its limits, no shorter than 20 ns and no longer than all. */
export function clamped({ from, to }, limits) {
  const whole = Math.max(limits.to - limits.from, LEAST_NS);
  const length = Math.min(Math.max(to - from, LEAST_NS), whole);
  const middle = (from + to) / 2;
  const first = to - from === length ? from : middle - length / 2;
  const start = Math.min(Math.max(first, limits.from), limits.from + whole - length);
  return { from: start, to: start + length };
}

/** Make a window `factor` times as long; the time `at` stays where it is on the screen. */
export function zoomed(window, limits, at, factor) {
  const whole = Math.max(limits.to - limits.from, LEAST_NS);
  const length = Math.min(Math.max((window.to - window.from) * factor, LEAST_NS), whole);
  const share = (at - window.from) / (window.to - window.from);
  const from = at - share * length;
  return clamped({ from, to: from + length }, limits);
}

/** Move a window by a time. */
export function panned(window, limits, by) {
  return clamped({ from: window.from + by, to: window.to + by }, limits);
}

/** Show a stretch with a margin on both sides. */
export function fitted(from, to, limits) {
  const margin = Math.max((to - from) * 0.15, LEAST_NS / 2);
  return clamped({ from: from - margin, to: to + margin }, limits);
}

/** Move a window just so far that a stretch is in it; a stretch that is longer or tiny is fitted. */
export function revealed(window, from, to, limits) {
  const length = window.to - window.from;
  if (to - from > length || to - from < length / 400) return fitted(from, to, limits);
  if (from >= window.from && to <= window.to) return window;
  const middle = (from + to) / 2;
  return clamped({ from: middle - length / 2, to: middle + length / 2 }, limits);
}

/** Go a share of the way from a window to its goal; the goal itself once they look the same. */
export function approached(window, goal, share = 0.35) {
  const from = window.from + (goal.from - window.from) * share;
  const to = window.to + (goal.to - window.to) * share;
  const nearness = (goal.to - goal.from) / 4000;
  const isThere = Math.abs(goal.from - from) < nearness && Math.abs(goal.to - to) < nearness;
  return isThere ? goal : { from, to };
}

/** The time under a pixel. */
export function timeAt(window, x, width) {
  return window.from + (x / width) * (window.to - window.from);
}

/** The pixel of a time. */
export function pixelOf(window, time, width) {
  return ((time - window.from) / (window.to - window.from)) * width;
}

/** Round times for an axis, about `apart` pixels from each other. */
export function ticks(window, width, apart = 110) {
  const step = roundStep(((window.to - window.from) * apart) / Math.max(width, 1));
  const times = [];
  for (let time = Math.ceil(window.from / step) * step; time <= window.to; time += step) times.push(time);
  return { step, times };
}

/** The least of 1, 2, 5, 10, … that is not below a length. */
export function roundStep(length) {
  const power = 10 ** Math.floor(Math.log10(Math.max(length, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= length * 0.999999);
}
