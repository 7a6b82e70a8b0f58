/**
 * Two evaluations' typical queries above and below one axis of time, aligned at their start: the query, its
 * model, layers and kernels, coloured by name alike. What is pointed at is shown in both, with its times.
 */

import { colourOf } from "./colours.js";
import { lightness, packed } from "./timeline/drawing/palette.js";
import { instant } from "./timeline/format.js";
import { ticks } from "./timeline/view.js";
import { duration, number } from "./quantities.js";

const MOST_SPANS = 1500;
const LABELLED_SHARE = 0.06;
const LEVELS = ["query", "model", "layer", "kernel"];
const ROW_PX = 24;
const AXIS_PX = 26;
const LAST_SHARE = 0.95;
const NAME_LETTERS = 80;
const SVG = "http://www.w3.org/2000/svg";

/** @typedef {{level: number, name: string, start: number, duration: number}} Span times in ns from the query's start */

/** The query of median duration. Pure. @param {{start: number[], duration: number[], query: number[]}} columns @returns {{from: number, to: number, query: number} | null} */
export function typicalQuery({ start, duration: lengths, query }) {
  if (start.length === 0) return null;
  const order = lengths.map((_, place) => place).sort((a, b) => lengths[a] - lengths[b]);
  const place = order[Math.floor((order.length - 1) / 2)];
  return { from: start[place], to: start[place] + lengths[place], query: query[place] };
}

/** The spans that are drawn: outermost ones of each level inside a query, the longest if they are too many. Pure. @returns {Span[]} */
export function spansOf(columns, lanes, { from, to, query }) {
  const levels = new Map(lanes.map((lane) => [lane.lane, LEVELS.indexOf(lane.group === "device" ? "kernel" : lane.level)]));
  const spans = [];
  columns.start.forEach((start, place) => {
    const level = levels.get(columns.lane[place]) ?? -1;
    const isOther = level === 0 && columns.query[place] !== query;
    if (level < 0 || isOther || columns.depth[place] > 0 || start < from || start > to) return;
    spans.push({ level, name: columns.name[place], start: start - from, duration: columns.duration[place] });
  });
  return spans.sort((a, b) => b.duration - a.duration).slice(0, MOST_SPANS);
}

/** How long all spans of a name and level take together. Pure. */
export function totalOf(spans, level, name) {
  return spans.reduce((sum, span) => sum + (span.level === level && span.name === name ? span.duration : 0), 0);
}

async function json(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error((await response.json().catch(() => ({}))).message ?? response.statusText);
  return response.json();
}

/** The typical query of the deepest run of an evaluation. */
async function sideOf(evaluation) {
  const api = `/api/evaluations/${evaluation}`;
  const trace = await json(`${api}/trace`);
  const address = `${api}/runs/${encodeURIComponent(trace.run)}/spans?format=json`;
  const lane = trace.lanes.find(({ level }) => level === "query");
  if (!lane) return null;
  const queries = await json(`${address}&lane=${lane.lane}&columns=start,duration,query`);
  const query = typicalQuery(queries.columns);
  if (!query) return null;
  const shown = trace.lanes.filter(({ group, level }) => group === "device" || LEVELS.includes(level));
  const window = await json(`${address}&t0=${query.from}&t1=${Math.ceil(query.to)}&lane=${shown.map((one) => one.lane)}&columns=lane,depth,start,duration,name,query`);
  const span = `${Math.floor(query.from)}ns,${Math.ceil(query.to)}ns`;
  return { spans: spansOf(window.columns, trace.lanes, query), length: query.to - query.from, run: trace.run, href: `/evaluations/${evaluation}/trace?run=${encodeURIComponent(trace.run)}&t=${span}` };
}

function drawn(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.textContent = text;
  return element;
}

/** Draw one side: levels from the query towards the axis, mirrored below it. */
function drawSide(svg, side, place, whole, top) {
  for (const span of side.spans) {
    const row = place === 0 ? span.level : LEVELS.length - 1 - span.level;
    const x = (100 * span.start) / whole, width = Math.max((100 * span.duration) / whole, 0.08);
    const y = top + row * ROW_PX;
    const box = { x: `${x}%`, y, width: `${width}%`, height: ROW_PX - 3 };
    const bar = drawn("rect", { ...box, fill: colourOf(span.name.slice(0, 200)) });
    bar.dataset.name = span.name;
    bar.dataset.level = String(span.level);
    bar.append(drawn("title", {}, `${LEVELS[span.level]} ${span.name.slice(0, 300)}: ${duration(span.duration)}`));
    svg.append(bar);
    if (span.duration / whole < LABELLED_SHARE) continue;
    const frame = drawn("svg", box);
    const isLight = lightness(packed(colourOf(span.name.slice(0, 200)))) > 0.5;
    frame.append(drawn("text", { class: isLight ? "on-light" : "on-dark", x: 5, y: 15 }, `${span.name.slice(0, NAME_LETTERS)} ${duration(span.duration)}`));
    svg.append(frame);
  }
}

/** The ticks of an axis, as shares of it with texts: round times, or with `isNormalised` percent. */
export function ticksOf(whole, width, isNormalised) {
  if (isNormalised) return [0, 20, 40, 60, 80, 100].map((part) => [part / 100, `${part}%`]);
  const { step, times } = ticks({ from: 0, to: whole }, width);
  return times.map((time) => [time / whole, instant(time, step)]);
}

function drawAxis(svg, whole, top, isNormalised) {
  for (const [share, text] of ticksOf(whole, svg.clientWidth, isNormalised)) {
    const anchor = share === 0 ? "start" : share > LAST_SHARE ? "end" : "middle";
    svg.append(drawn("text", { class: "tick", x: `${100 * share}%`, y: top + 17, "text-anchor": anchor }, text));
  }
}

class Mirrored {
  constructor(section, sides) {
    this.section = section;
    this.sides = sides;
    this.letters = section.dataset.letters.split(",");
    this.svg = section.querySelector("svg");
    this.switch = section.querySelector("input");
    this.switch.addEventListener("change", () => this.draw());
    this.svg.addEventListener("pointerover", ({ target }) => this.point(target.dataset?.name === undefined ? null : target.dataset));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    section.querySelectorAll("[data-side]").forEach((link, place) => (link.href = sides[place].href));
  }

  draw() {
    const { sides, svg, switch: { checked } } = this;
    const height = LEVELS.length * ROW_PX;
    svg.replaceChildren();
    svg.setAttribute("height", String(2 * height + AXIS_PX));
    const longest = Math.max(...sides.map(({ length }) => length));
    sides.forEach((side, place) => drawSide(svg, side, place, checked ? side.length : longest, place * (height + AXIS_PX)));
    drawAxis(svg, longest, height, checked);
    this.point(null);
  }

  /** Show a name in both, and what it takes in each. */
  point(target) {
    for (const bar of this.svg.querySelectorAll("rect")) bar.classList.toggle("faded", target !== null && bar.dataset.name !== target.name);
    const output = this.section.querySelector("output");
    const [first, second] = target ? this.sides.map(({ spans }) => totalOf(spans, Number(target.level), target.name)) : this.sides.map(({ length }) => length);
    const ratio = first > 0 && second > 0 ? ` (× ${number(second / first)})` : "";
    const name = target ? `${LEVELS[target.level]} ${target.name.slice(0, NAME_LETTERS)}` : "The query";
    const text = (ns) => (ns > 0 ? duration(ns) : "none");
    output.textContent = `${name}: ${this.letters[0]} ${text(first)}, ${this.letters[1]} ${text(second)}${ratio}`;
  }
}

/** Load and draw both once somebody asks: the first view of a long trace makes the server prepare it. */
function listen(section) {
  const button = section.querySelector("button");
  section.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    button.textContent = "Loading both traces…";
    try {
      const sides = await Promise.all(section.dataset.evaluations.split(",").map(sideOf));
      const missing = sides.indexOf(null);
      if (missing >= 0) throw new Error(`${section.dataset.letters.split(",")[missing]} has no queries in its trace`);
      section.querySelector(".drawn").hidden = false;
      new Mirrored(section, sides).draw();
      button.remove();
    } catch (error) {
      button.disabled = false;
      button.textContent = `Not drawn: ${error.message}. Try again`;
    }
  });
}

const section = document.getElementById("mirrored");
if (section) listen(section);
