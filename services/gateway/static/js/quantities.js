/**
 * Numbers with units for people to read, by the rule of mlscope/quantities.py: three significant digits
 * without zeros at the end, whole numbers and all digits before the point kept, shares with one decimal.
 */

const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const PREFIXED = { By: "B", B: "B", bytes: "B", FLOP: "FLOP", "FLOP/s": "FLOP/s", "B/s": "B/s" };
const NAMES = { "FLOP/By": "FLOP/B", "1/s": "/s", 1: "", Cel: "°C" };
const ROUNDED_TO_ONE = 0.9995;
const UNKNOWN = "–";

/** The largest scale of which a value, once rounded, has one. */
function scaleOf(value, scales) {
  return scales.find(([size]) => Math.abs(value) >= ROUNDED_TO_ONE * size) ?? scales.at(-1);
}

/** A number with three significant digits; "–" where it is none. */
export function number(value) {
  if (!Number.isFinite(value)) return UNKNOWN;
  const rounded = Math.round(value);
  return String(Number.isInteger(value) || Math.abs(rounded) >= 1000 ? rounded : Number(value.toPrecision(3)));
}

/** A time in ns with the unit that fits: 1.84 ms. */
export function duration(ns) {
  if (!Number.isFinite(ns)) return UNKNOWN;
  const [size, unit] = scaleOf(ns, TIMES);
  return `${number(ns / size)} ${unit}`;
}

/** A share as percent with one decimal. */
export function percent(share) {
  if (!Number.isFinite(share)) return UNKNOWN;
  // Without the sign that a negative share would keep when it is rounded to 0.
  return `${(Math.round(1000 * share) / 10 || 0).toFixed(1)}%`;
}

/** A value of a column in its unit, as UCUM writes it: ns, By, 1; `share` stands for percent. */
export function quantity(value, unit) {
  if (unit === "ns") return duration(value);
  if (unit === "s") return duration(value * 1e9);
  if (unit === "share") return percent(value);
  if (unit === "USD") return `$${number(value)}`;
  const [size, prefix] = unit in PREFIXED ? scaleOf(value, PREFIXES) : [1, ""];
  return `${number(value / size)} ${prefix}${PREFIXED[unit] ?? NAMES[unit] ?? unit}`.trim();
}

/** A rate in 1/s, "–" where it is not known: zero or less. */
export function rate(perSecond) {
  return perSecond > 0 ? number(perSecond) : UNKNOWN;
}

/** Queries from which on a percentile is certified, as in mlscope/statistics/certification.py. */
export const CERTIFIED_FROM = { p50: 1, p90: 64, p99: 662 };

/** A percentile so far in ns, "–" where it is not known (negative); one of fewer queries than certify it says so. */
export function percentile(ns, name, answered) {
  if (!(ns >= 0)) return UNKNOWN;
  return `${duration(ns)}${answered < CERTIFIED_FROM[name] ? " (few queries)" : ""}`;
}
