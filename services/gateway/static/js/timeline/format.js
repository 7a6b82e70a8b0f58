/** Times and names on the timeline as people read them; figures are those of `quantities.js`. */

export { duration, number, percent, quantity } from "../quantities.js";

const UNITS = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
];

/** A point in time on an axis whose marks are `step` ns apart. */
export function instant(ns, step) {
  const [unit, size] = UNITS.find(([, scale]) => Math.max(Math.abs(ns), step) >= scale) ?? ["ns", 1];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(ns / size).toFixed(Math.min(digits, 9))} ${unit}`;
}

/** When a span starts, to a tenth of its duration: spans that begin one after the other differ. */
export function startOf({ start, duration: lengths }, span) {
  return instant(start[span], 10 ** Math.max(Math.floor(Math.log10(Math.max(lengths[span], 1))) - 1, 0));
}

/** A whole number with all its digits: 1,023,512. */
export function count(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A text of at most `most` characters, cut in the middle. */
export function shortened(text, most) {
  const letters = [...text.slice(0, most * 4)];
  if (letters.length <= most && text.length <= most * 4) return text;
  const head = Math.ceil((most - 1) * 0.6);
  const tail = [...text.slice(-most * 2)].slice(-(most - 1 - head));
  return `${letters.slice(0, head).join("")}…${tail.join("")}`;
}

const QUERY_KIND = 7;
const STATUSES = ["answered", "failed", "lost"];

/** What a span is called: its name; a query of the load by its number, and what became of it unless it was answered. */
export function titleOf(store, { row, span }) {
  const name = store.names[row.name[span]];
  if (row.kind[span] !== QUERY_KIND || row.count[span] > 1 || !STATUSES.includes(name)) return name;
  return `query ${row.query[span]}${name === STATUSES[0] ? "" : `, ${name}`}`;
}
