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
