/** The panel below the lanes: what is known of the selected span, or of the marked range. */

import { count, duration, percent, shortened, startOf, titleOf } from "./format.js";
import { layersOfQuery, partsOfQuery, spansAround, startedInside } from "./data/kin.js";
import { LAUNCH, childrenOf, composition, flowOf, mediansOf, sameName } from "./data/selection.js";

const NAME_LETTERS = 160;
const MOST_PARTS = 100;
const SHOWN_CHILDREN = 20;

/** An element with properties and children. */
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** A table with a heading, from rows of cells; numbers stand to the right. */
function table(caption, heads, rows) {
  const head = element("tr", {}, ...heads.map((text, at) => element("th", { scope: "col", className: at ? "number" : "", textContent: text })));
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell, at) => element("td", { className: at ? "number" : "" }, cell))));
  return element("table", {}, element("caption", { textContent: caption }), element("thead", {}, head), element("tbody", {}, ...body));
}

/** By how much a duration is above a median, with its sign; a dash where there is none. */
function overText(own, median) {
  if (median === null) return "–";
  return `${own > median ? "+" : ""}${duration(own - median)}`;
}

/** Links with dots between them. */
function anchorsOf(links) {
  return links.flatMap(([text, href]) => [element("a", { href, textContent: text }), " · "]).slice(0, -1);
}

export class Details {
  /**
   * @param {HTMLElement} panel
   * @param {{select: (place: object) => void, details: (id: number, signal: AbortSignal) => Promise<any>, links: (level: string, name: string, layer?: number, hasDevice?: boolean) => [string, string][]}} actions
   */
  constructor(panel, actions) {
    this.panel = panel;
    this.actions = actions;
  }

  /** Say that nothing is selected. */
  clear() {
    this.abort?.abort();
    this.panel.replaceChildren(element("p", { className: "soft", textContent: "Click a span for its details. Shift and drag, or m and drag, marks a range and says what it is made of. Double click zooms to a span; ? lists the keys." }));
  }

  /** One sentence for who hears the page. */
  sentence(store, lanes, place) {
    const { row, span } = place;
    const name = shortened(titleOf(store, place), NAME_LETTERS);
    const { total } = childrenOf(store, place);
    const [above] = spansAround(store, lanes, place);
    const part = above ? `, ${percent(row.duration[span] / above.row.duration[above.span])} of ${shortened(titleOf(store, above), 60)}` : "";
    return `${name}, ${lanes.get(row.lane)?.level ?? ""}, ${duration(row.duration[span])}, ${count(total)} children${part}`;
  }

  /** Show a span: at once what the page knows, then what the server adds. */
  show(store, lanes, place) {
    this.abort?.abort();
    this.abort = new AbortController();
    const { row, span } = place;
    const name = titleOf(store, place);
    const title = element("h3", { textContent: shortened(name, NAME_LETTERS), title: name.slice(0, 2000) });
    const own = element("div", { className: "own" }, title, this.#facts(store, lanes, place));
    this.panel.replaceChildren(own, this.#inside(store, lanes, place), this.#alike(store, lanes, place));
    if (row.id[span] >= 0 && row.count[span] <= 1) this.#ask(row.id[span], own, this.abort.signal, { store, lanes, ...place });
  }

  #button(store, place) {
    const name = titleOf(store, place);
    const button = element("button", { type: "button", className: "link", textContent: shortened(name, 60), title: name.slice(0, 500) });
    button.addEventListener("click", () => this.actions.select(place));
    return button;
  }

  #facts(store, lanes, place) {
    const { row, span } = place;
    const lane = lanes.get(row.lane);
    const { places, total } = childrenOf(store, place);
    const below = places.reduce((sum, child) => sum + (lanes.get(child.row.lane)?.group === lane?.group ? child.row.duration[child.span] : 0), 0);
    const facts = [["Duration", duration(row.duration[span])], ["Start", startOf(row, span)], ["Lane", lane?.title ?? "–"]];
    if (row.count[span] > 1) facts.push(["Stands for", `${count(row.count[span])} spans, ${percent(row.busy[span])} busy; zoom in to see them apart`]);
    if (total && total <= places.length) facts.push(["Own time", duration(Math.max(row.duration[span] - below, 0))]);
    if (row.query[span] >= 0) facts.push(["Query", String(row.query[span])]);
    const list = element("dl", { className: "pairs" }, ...facts.flatMap(([term, text]) => [element("dt", { textContent: term }), element("dd", { textContent: text })]));
    const above = spansAround(store, lanes, place);
    if (above.length) {
      const path = above.reverse().flatMap((ancestor) => [this.#button(store, ancestor), " › "]).slice(0, -1);
      list.append(element("dt", { textContent: "Inside" }), element("dd", {}, ...path));
    }
    const links = this.actions.links(lane?.level ?? "", store.names[row.name[span]]);
    if (links.length) list.append(element("dt", { textContent: "See" }), element("dd", { className: "links" }, ...anchorsOf(links)));
    return list;
  }

  /** Two tables: the spans inside, and the work on a device that it started. */
  #inside(store, lanes, place) {
    const { places, total } = childrenOf(store, place);
    const longest = [...places].sort((a, b) => b.row.duration[b.span] - a.row.duration[a.span]);
    const flows = flowOf(store, place);
    const work = place.row.kind[place.span] === LAUNCH ? flows : startedInside(store, lanes, place);
    const parts = partsOfQuery(store, lanes, place);
    const box = element("div", { className: "children" });
    const shares = (title, children, number) => box.append(this.#shares(title, { store, lanes, place }, children, number));
    if (parts.length) shares("Done for this query", parts, parts.length);
    const layers = layersOfQuery(store, lanes, place);
    if (layers.length) shares("Its layers", layers, layers.length);
    if (total) shares("Inside", longest, total);
    if (work.length) {
      const device = work.reduce((sum, kernel) => sum + kernel.row.duration[kernel.span], 0);
      shares(`Started on the device: ${duration(device)}`, work, work.length);
    }
    if (!total && !work.length && !parts.length) box.append(element("p", { className: "soft", textContent: "No spans inside." }));
    return box;
  }

  /** A table of spans: of those of the host also by how much each is longer than its name's median. */
  #shares(title, { store, lanes, place }, places, total) {
    const whole = place.row.duration[place.span] || 1;
    const shown = places.slice(0, SHOWN_CHILDREN);
    const rows = shown.map((child) => [this.#button(store, child), duration(child.row.duration[child.span]), percent(child.row.duration[child.span] / whole)]);
    const heads = ["Name", "Duration", "Share"];
    // A kernel's name stands for several layers of different sizes: the median of all says nothing.
    const isHost = shown.some(({ row }) => lanes.get(row.lane)?.group === "host");
    const medians = isHost ? mediansOf(store, lanes, shown) : [];
    if (medians.some((median) => median !== null)) {
      heads.push("Over median");
      shown.forEach(({ row, span }, at) => rows[at].push(overText(row.duration[span], medians[at])));
    }
    const caption = total > shown.length ? `${title}, the longest ${shown.length} of ${count(total)}` : `${title} (${total})`;
    return table(caption, heads, rows);
  }

  #alike(store, lanes, place) {
    const same = sameName(store, lanes, place);
    const box = element("div", { className: "alike-spans" });
    const title = element("h4", { textContent: `Same name: ${count(same.count)}` });
    const own = place.row.duration[place.span];
    const rank = own >= same.most ? "the longest" : `longer than or as long as ${percent(same.rank)} of them`;
    const verdict = same.count > 1 ? `median ${duration(same.median)}, this one ${duration(own)}: ${rank}` : "the only one";
    box.append(title, element("p", { textContent: verdict }));
    if (same.count > 1) {
      box.append(histogram(same, place.row.duration[place.span]));
      const facts = [["least", same.least], ["90th percentile", same.p90], ["99th", same.p99], ["longest", same.most], ["all together", same.total]];
      box.append(element("dl", { className: "pairs" }, ...facts.flatMap(([term, ns]) => [element("dt", { textContent: term }), element("dd", { textContent: duration(ns) })])));
    }
    return box;
  }

  /** Put links to the tables of layers, with this one chosen, in the place of those by name. */
  #seeLayer(own, { store, lanes, row, span }, layer) {
    const hasDevice = [...lanes.values()].some(({ group }) => group === "device");
    const links = this.actions.links(lanes.get(row.lane)?.level ?? "", store.names[row.name[span]], layer, hasDevice);
    const part = own.querySelector(".links");
    if (part) part.replaceChildren(...anchorsOf(links));
    else own.querySelector("dl").append(element("dt", { textContent: "See" }), element("dd", { className: "links" }, ...anchorsOf(links)));
  }

  async #ask(id, own, signal, place) {
    const answer = await this.actions.details(id, signal).catch(() => null);
    if (!answer || signal.aborted) return;
    if (answer.layer >= 0) this.#seeLayer(own, place, answer.layer);
    const attributes = Object.entries(answer.attributes ?? {});
    if (attributes.length === 0) return;
    const text = (value) => shortened(typeof value === "string" ? value : JSON.stringify(value), 2000);
    const pairs = attributes.flatMap(([term, value]) => [element("dt", { textContent: term }), element("dd", { textContent: text(value) })]);
    own.append(element("h4", { textContent: "Attributes" }), element("dl", { className: "pairs attributes" }, ...pairs));
  }

  /** Show what a range is made of. */
  showRange(store, lanes, { from, to }) {
    this.abort?.abort();
    const parts = composition(store, lanes, from, to);
    const rows = parts.slice(0, MOST_PARTS).map((part) => [
      shortened(store.names[part.name], NAME_LETTERS), part.level, count(part.count), duration(part.busy), percent(part.share),
    ]);
    const heads = ["Name", "Level", "Count", "Busy", "Share of the range"];
    const title = element("h3", { textContent: `Range of ${duration(to - from)}` });
    const note = element("p", { className: "soft", textContent: "Busy is time inside the range, summed over lanes; a share above 100% means that spans overlap." });
    const caption = parts.length > MOST_PARTS ? `The busiest ${MOST_PARTS} of ${count(parts.length)} names` : `${count(parts.length)} names`;
    const wide = element("div", { className: "wide", tabIndex: 0 }, table(caption, heads, rows));
    wide.setAttribute("role", "region");
    wide.setAttribute("aria-label", "What the range is made of");
    this.panel.replaceChildren(element("div", { className: "range" }, title, note, wide));
  }
}

/** Counts of durations as bars; the bin of the own duration stands out. */
function histogram({ histogram: { low, high, width, counts } }, own) {
  const canvas = element("canvas", { width: 2 * 12 * counts.length, height: 96, className: "histogram" });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Durations from ${duration(low)} to ${duration(high)} (99th percentile)`);
  const pen = canvas.getContext("2d");
  const most = Math.max(...counts);
  const bin = Math.min(counts.length - 1, Math.max(0, Math.floor((own - low) / width)));
  counts.forEach((number, at) => {
    const height = number ? Math.max(3, (number / most) * 92) : 0;
    pen.fillStyle = at === bin ? "#b96a00" : "#748196";
    pen.fillRect(at * 24 + 1, 96 - height, 22, height);
  });
  const ends = element("p", { className: "ends" }, element("span", { textContent: duration(low) }), element("span", { textContent: duration(high) }));
  return element("figure", {}, canvas, ends);
}
