/** The view as a query of the address: `t` window, `sel` span, `query` by number, `q` search, `lanes` pinned, `fold` folded. Pure. */

const SCALES = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 };

/** A time as text that keeps every nanosecond: 12.31ms. */
export function timeText(ns) {
  const rounded = Math.round(ns);
  const [unit, scale] = [["s", 1e9], ["ms", 1e6], ["us", 1e3]].find(([, size]) => Math.abs(rounded) >= size) ?? ["ns", 1];
  return `${rounded / scale}${unit}`;
}

/** The time of a text such as 12.31ms, without a unit ns; NaN if it is none. */
export function timeOf(text) {
  const match = /^\s*(-?\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)?\s*$/.exec(text);
  return match ? Number(match[1]) * SCALES[match[2] ?? "ns"] : NaN;
}

/** The view that an address's query asks for; parts that it lacks or that make no sense are null or empty. */
export function viewOf(address) {
  const parameters = new URLSearchParams(address);
  const [from, to] = (parameters.get("t") ?? "").split(",").map(timeOf);
  const [selected, query] = ["sel", "query"].map((name) => parameters.get(name) ?? "");
  const list = (name) => (parameters.get(name) ?? "").split(",").filter(Boolean);
  return {
    window: from < to ? { from, to } : null,
    selected: /^\d+$/.test(selected) ? Number(selected) : null,
    query: /^\d+$/.test(query) ? Number(query) : null,
    search: parameters.get("q") ?? "",
    pinned: list("lanes"),
    folded: parameters.has("fold") ? list("fold") : null,
  };
}

/** A query with the view in it; other parameters stay as they are. */
export function queryOf(view, before = "") {
  const parameters = new URLSearchParams(before);
  const set = (name, text) => (text ? parameters.set(name, text) : parameters.delete(name));
  set("t", view.window ? `${timeText(view.window.from)},${timeText(view.window.to)}` : "");
  set("sel", view.selected === null ? "" : String(view.selected));
  set("query", view.query === null ? "" : String(view.query));
  set("q", view.search);
  set("lanes", view.pinned.join(","));
  set("fold", view.folded?.join(",") ?? "");
  const text = parameters.toString().replaceAll("%2C", ",").replaceAll("%2F", "/").replaceAll("%3A", ":");
  return text ? `?${text}` : "";
}
