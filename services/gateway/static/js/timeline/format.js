/** Times and numbers as people read them. */

const UNITS = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
];

/** A length of time with three digits: 1.84 ms. */
export function duration(ns) {
  if (!Number.isFinite(ns)) return "–";
  const [unit, size] = UNITS.find(([, scale]) => Math.abs(ns) >= scale * 0.9995) ?? ["ns", 1];
  if (unit === "ns") return `${Math.round(ns * 10) / 10} ns`;
  const value = ns / size;
  return `${Math.abs(value) >= 1000 ? Math.round(value).toString() : value.toPrecision(3)} ${unit}`;
}

/** A point in time on an axis whose marks are `step` ns apart. */
export function instant(ns, step) {
  const [unit, size] = UNITS.find(([, scale]) => Math.max(Math.abs(ns), step) >= scale) ?? ["ns", 1];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(ns / size).toFixed(Math.min(digits, 9))} ${unit}`;
}

/** A whole number with thin spaces: 1 023 512. */
export function count(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, " ");
}

/** A share as per cent. */
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  return `${value >= 9.95 ? value.toFixed(0) : value.toPrecision(2)} %`;
}

/** A text of at most `most` characters, cut in the middle. */
export function shortened(text, most) {
  const letters = [...text.slice(0, most * 4)];
  if (letters.length <= most && text.length <= most * 4) return text;
  const head = Math.ceil((most - 1) * 0.6);
  const tail = [...text.slice(-most * 2)].slice(-(most - 1 - head));
  return `${letters.slice(0, head).join("")}…${tail.join("")}`;
}

const PREFIXES = [
  ["T", 1e12],
  ["G", 1e9],
  ["M", 1e6],
  ["k", 1e3],
];

/** A value with its unit as UCUM writes it: By are bytes, 1 counts, s are seconds. */
export function amount(value, unit) {
  if (unit === "s") return duration(value * 1e9);
  const [prefix, size] = PREFIXES.find(([, scale]) => Math.abs(value) >= scale) ?? ["", 1];
  const digits = Number.isInteger(value) && size === 1 ? String(value) : (value / size).toPrecision(3);
  const name = { By: "B", 1: "", Cel: "°C" }[unit] ?? unit;
  return `${digits} ${prefix}${name}`.trim();
}

const QUERY_KIND = 7;
const STATUSES = ["answered", "failed", "lost"];

/** What a span is called: its name; a query of the load by its number, and what became of it unless it was answered. */
export function titleOf(store, { row, span }) {
  const name = store.names[row.name[span]];
  if (row.kind[span] !== QUERY_KIND || row.count[span] > 1 || !STATUSES.includes(name)) return name;
  return `query ${row.query[span]}${name === STATUSES[0] ? "" : `, ${name}`}`;
}
