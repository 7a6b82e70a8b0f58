// Numbers with units for people to read, as in mlscope/quantities.py.

const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** Return a duration in ns as text, "–" where it is not known (negative or missing). */
export function duration(ns) {
  if (!(ns >= 0)) return "–";
  const [factor, unit] = TIMES.find(([size]) => ns >= size) ?? TIMES.at(-1);
  return `${Number((ns / factor).toPrecision(3))} ${unit}`;
}

/** Return a rate in 1/s as text with three digits, "–" where it is not known. */
export function rate(perSecond) {
  if (!(perSecond > 0)) return "–";
  return perSecond >= 1000 ? Math.round(perSecond).toLocaleString("en") : `${Number(perSecond.toPrecision(3))}`;
}

/** Queries from which on a percentile is certified, as in mlscope/statistics/certification.py. */
export const CERTIFIED_FROM = { p50: 1, p90: 64, p99: 662 };

/** Return a percentile so far as text; one of fewer queries than certify it says so. */
export function percentile(ns, name, answered) {
  const doubt = ns >= 0 && answered < CERTIFIED_FROM[name] ? " (few queries)" : "";
  return `${duration(ns)}${doubt}`;
}
