/**
 * Numbers with units for people to read, by the rule of mlscope/quantities.py: three significant digits
 * without zeros at the end, whole numbers and all digits before the point kept, shares with one decimal.
 */

const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const SECONDS = TIMES.map(([size, unit]) => [size / 1e9, unit]);
const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const PREFIXED = { By: "B", B: "B", bytes: "B", FLOP: "FLOP", "FLOP/s": "FLOP/s", "B/s": "B/s" };
const NAMES = { "FLOP/By": "FLOP/B", "1/s": "/s", 1: "", Cel: "°C" };
const MONEY = { USD: "", "USD/h": "/h" };
const ROUNDED_TO_ONE = 0.9995;
const SMALLEST_PLAIN = 1e-4;
const MOST_DIGITS = 100;
const UNKNOWN = "–";

/** The largest scale of which a value, once rounded, has one. */
function scaleOf(value, scales) {
  return scales.find(([size]) => Math.abs(value) >= ROUNDED_TO_ONE * size) ?? scales.at(-1);
}

/** A size by its method `write` ("toFixed" or "toPrecision"), which rounds halves up; they go to an even digit, as in Python. */
function toEven(size, write, digits) {
  const text = size[write](digits);
  const exact = size[write](MOST_DIGITS);
  const isHalf = /^\.?50*$/.test(exact.slice(text.length));
  return isHalf && /[13579]$/.test(text) ? exact.slice(0, text.length) : text;
}

/** A number with three significant digits; "–" where it is none. */
export function number(value) {
  if (!Number.isFinite(value)) return UNKNOWN;
  const size = Math.abs(value);
  let text = toEven(size, "toFixed", 0);
  if (!Number.isInteger(size) && text.length <= 3) {
    const rounded = Number(toEven(size, "toPrecision", 3));
    // Python writes exponents of two digits.
    text = rounded < SMALLEST_PLAIN ? rounded.toExponential().replace(/-(\d)$/, "-0$1") : String(rounded);
  }
  return value < 0 ? `-${text}` : text;
}

/** A value in the unit that fits; `scales` are sizes with units, the largest first. */
function scaled(value, scales) {
  const [size, unit] = scaleOf(value, scales);
  return `${number(value / size)} ${unit}`;
}

/** A time in ns with the unit that fits: 1.84 ms. */
export function duration(ns) {
  return Number.isFinite(ns) ? scaled(ns, TIMES) : UNKNOWN;
}

/** A share as percent with one decimal. */
export function percent(share) {
  if (!Number.isFinite(share)) return UNKNOWN;
  const text = toEven(Math.abs(100 * share), "toFixed", 1);
  return `${share < 0 && Number(text) ? "-" : ""}${text}%`;
}

/** A value of a column in its unit, as UCUM writes it: ns, By, 1; `share` stands for percent. */
export function quantity(value, unit) {
  if (!Number.isFinite(value)) return UNKNOWN;
  if (unit === "ns") return duration(value);
  if (unit === "s") return scaled(value, SECONDS);
  if (unit === "share") return percent(value);
  if (unit in MONEY) return `$${number(value)}${MONEY[unit]}`;
  if (unit in PREFIXED) return scaled(value, PREFIXES.map(([size, prefix]) => [size, prefix + PREFIXED[unit]]));
  return `${number(value)} ${NAMES[unit] ?? unit}`.trim();
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
  // In a narrow field only the remark goes to the next line, as a whole.
  return `${duration(ns).replace(" ", "\u00a0")}${answered < CERTIFIED_FROM[name] ? " (few\u00a0queries)" : ""}`;
}
