// The latencies of a run's queries so far: bars of equal ratio, and the share that is at least as fast.

import { duration, percent } from "../quantities.js";

const PER_OCTAVE = 8; // as in mlscope/statistics/latency_buckets.py
const [WIDTH, HEIGHT, BOTTOM, LEFT] = [900, 180, 24, 44];
const SVG = "http://www.w3.org/2000/svg";

/**
 * Return the bars of a histogram given as buckets and counts in turn, also empty ones between.
 * `slowest` has the slowest query of each of these buckets.
 * @returns {{from: number, to: number, count: number, below: number, query: number}[]} `below` is the
 * share of queries up to the end of the bar, `query` the number of its slowest, -1 not known
 */
export function barsOf(pairs, slowest = []) {
  const counts = new Map();
  const queries = new Map();
  for (let place = 0; place < pairs.length; place += 2) {
    counts.set(pairs[place], pairs[place + 1]);
    queries.set(pairs[place], slowest[place / 2] ?? -1);
  }
  if (!counts.size) return [];
  const [first, last] = [Math.min(...counts.keys()), Math.max(...counts.keys())];
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  let sum = 0;
  return Array.from({ length: last - first + 1 }, (_, place) => {
    const bucket = first + place;
    const count = counts.get(bucket) ?? 0;
    sum += count;
    return { from: 2 ** (bucket / PER_OCTAVE), to: 2 ** ((bucket + 1) / PER_OCTAVE), count, below: sum / total, query: queries.get(bucket) ?? -1 };
  });
}

function element(name, attributes, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.textContent = text;
  return made;
}

/** The picture in a figure, drawn anew at most ten times a second. */
export class Histogram {
  /** @param {HTMLElement} figure @param {string} trace the address of the evaluation's trace, "" without one */
  constructor(figure, trace = "") {
    this.trace = trace;
    this.svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "group" });
    figure.append(this.svg);
    addEventListener("resize", () => this.reading && this.show(this.reading));
  }

  show(reading) {
    this.reading = reading;
    const bars = barsOf(reading.histogram, reading.slowest);
    if (!bars.length) return;
    const width = this.svg.clientWidth || WIDTH;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("aria-label", `Latency of ${reading.answered} queries, from ${duration(bars[0].from)} to ${duration(bars.at(-1).to)}`);
    const step = (width - LEFT - 8) / bars.length;
    const floor = HEIGHT - BOTTOM;
    const most = Math.max(...bars.map((bar) => bar.count));
    const y = (share) => floor - share * (floor - 14);
    const parts = [0, 0.5, 1].map((share) => element("text", { x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, `${share * 100}%`));
    parts.push(element("line", { class: "axis", x1: LEFT, x2: width, y1: floor, y2: floor }));
    const every = Math.max(1, Math.ceil(80 / step));
    let curve = `M${LEFT},${floor}`;
    bars.forEach((bar, place) => {
      const x = LEFT + place * step;
      const top = y(bar.count / most);
      const rect = element("rect", { class: "bar", x: x + 0.5, y: top, width: Math.max(1, step - 1), height: floor - top });
      const area = element("rect", { class: "area", x, y: y(1), width: step, height: floor - y(1) });
      parts.push(this.#part(reading.run, bar, area, rect));
      curve += `L${x + step},${y(bar.below)}`;
      if (place % every === 0 && x < width - 50) parts.push(element("text", { x, y: HEIGHT - 8 }, duration(bar.from)));
    });
    parts.push(element("path", { class: "curve", d: curve }));
    this.svg.replaceChildren(...parts);
  }

  /** A bar, and all above it, as a link to its slowest query; a pointer's only, the page of the run has all queries. */
  #part(run, bar, ...shapes) {
    const isLink = this.trace && bar.query >= 0;
    const address = `${this.trace}?run=${encodeURIComponent(run)}&query=${bar.query}`;
    const part = isLink ? element("a", { href: address, tabindex: -1, "aria-hidden": "true" }) : element("g", {});
    const slowest = bar.query < 0 ? "" : `; the slowest is query ${bar.query}`;
    const text = `${duration(bar.from)} to ${duration(bar.to)}: ${bar.count} queries; ${percent(bar.below)} are at least as fast${slowest}`;
    part.append(element("title", {}, text), ...shapes);
    return part;
  }
}
