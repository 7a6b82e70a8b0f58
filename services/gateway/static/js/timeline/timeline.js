/**
 * The timeline of a run: lanes of spans on a canvas, with search, selection, ranges, links and keys.
 *
 * It works inside an element made by `templates/parts/timeline.html` and holds what is shown; modules
 * beside this one compute and draw. Whatever a person does costs what is on the screen, not what is stored.
 */

import { asked, keepAddress, openAgain, openAt } from "./address.js";
import { commandsOf } from "./commands.js";
import { Details } from "./details.js";
import { AXIS, Screen } from "./drawing/draw.js";
import { count, duration } from "./format.js";
import { Frames } from "./drawing/frames.js";
import { listen } from "./gestures.js";
import { fillGutter } from "./gutter.js";
import { spanNear } from "./data/hit.js";
import { actionOf, showHelp } from "./keys.js";
import { blockAt, blockOf, foldedAtFirst, groupOf, layoutOf, topOf } from "./drawing/layout.js";
import { Minimap } from "./drawing/minimap.js";
import { Palette } from "./drawing/palette.js";
import { themeOf } from "./drawing/theme.js";
import { hitsOf } from "./data/search.js";
import { flowOf } from "./data/selection.js";
import { WindowTable } from "./tables.js";
import { showTip } from "./tip.js";
import { approached, clamped, panned, revealed, timeAt, zoomed } from "./view.js";

const REST_MS = 150;
const BORDERS = 2;
const MINIMAP_ROWS = 12;
const LAG_NS = 250e6;
const FOLLOWED_NS = 5e9;

export class Timeline {
  /**
   * @param {HTMLElement} root @param {import("./data/detail_levels.js").DetailLevels} levels
   * @param {{details: (id: number, signal: AbortSignal) => Promise<any>, links: (level: string, name: string) => [string, string][]}} links
   */
  constructor(root, levels, { details, links }) {
    this.root = root;
    this.levels = levels;
    this.parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.lanes = new Map();
    this.folding = { folded: new Set(), pinned: new Set() };
    this.view = { window: { from: 0, to: 1 }, goal: { from: 0, to: 1 }, limits: { from: 0, to: 1 } };
    Object.assign(this, { selected: null, hovered: null, hits: null, range: null, flows: [], gaps: [], pointer: null, isMarking: false, isFollowing: false, latest: null });
    this.palette = new Palette();
    this.frames = new Frames();
    this.screen = new Screen(this.parts.canvas);
    this.minimap = new Minimap(this.parts.minimap, (window) => this.goTo(window, true));
    this.details = new Details(this.parts.details, { select: (place) => this.select(place), details, links });
    this.table = new WindowTable(this.parts.table, (id) => this.selectId(id));
    this.commands = commandsOf(this);
    this.isStill = matchMedia("(prefers-reduced-motion: reduce)");
    this.#listen();
    this.readTheme();
    this.details.clear();
    globalThis.__timeline = this;
  }

  /** The spans that the window shows. */
  get store() {
    return this.levels.storeFor(this.view.window);
  }

  /** Take the lanes; at the first time the address says what is shown. */
  setLanes(lanes, gaps = []) {
    const isFirst = this.lanes.size === 0;
    this.lanes = new Map(lanes.map((lane) => [lane.lane, lane]));
    this.gaps = gaps;
    if (isFirst) {
      const { folded, pinned } = asked();
      this.folding = { folded: new Set(folded ?? foldedAtFirst(lanes)), pinned: new Set(pinned) };
    }
    this.relayout();
  }

  /** Show what has arrived: limits of time, colours, and at first the view of the address. */
  arrived(limits, isFirst) {
    this.view.limits = limits;
    this.palette.learn(this.levels.overview.names);
    if (isFirst) openAt(this, asked());
    this.minimap.stale();
    this.#afterStore();
  }

  /** Single spans have come in the place of tiles. */
  completed() {
    this.refined();
    openAgain(this);
  }

  /** Finer or newer spans have come. */
  refined() {
    this.minimap.stale();
    this.#afterStore();
    this.#restSoon();
  }

  /** More spans have come to the store that is shown. */
  refreshed() {
    if (this.hits) this.search(this.parts.search.value);
    this.table.update(this.store, this.lanes, this.view.goal, this.selectedId);
  }

  /** Find again in another store what was selected, hovered and searched. */
  #afterStore() {
    const id = this.selected ? this.selected.row.id[this.selected.span] : -1;
    this.palette.learn(this.levels.overview.names);
    this.hovered = null;
    const place = id >= 0 ? this.store.locate(id) : null;
    if (place) this.selected = place;
    this.search(this.parts.search.value);
    this.relayout();
  }

  /** Compute where lanes stand. */
  relayout() {
    for (const row of this.levels.overview.rows.values()) {
      const lane = this.lanes.get(row.lane);
      if (lane && row.depth > lane.depth_max) lane.depth_max = row.depth;
    }
    const room = Number.parseFloat(getComputedStyle(this.parts.lanes).maxHeight) || 0;
    this.layout = layoutOf([...this.lanes.values()], this.folding, room - AXIS - BORDERS);
    fillGutter(this.parts.gutter, this.layout, AXIS, { onFold: (key) => this.fold(key), onPin: (key) => this.pin(key) });
    this.resize();
  }

  resize() {
    const { lanes, canvas, gutter } = this.parts;
    const width = lanes.clientWidth - gutter.offsetWidth;
    const height = Math.min(this.layout.height + AXIS, lanes.clientHeight || Infinity);
    this.screen.resize(width, height, devicePixelRatio || 1);
    canvas.style.width = `${this.screen.width}px`;
    this.minimap.resize(this.parts.minimap.clientWidth, devicePixelRatio || 1);
    this.invalidate();
  }

  /** Read the colours of the page; they change with the theme. */
  readTheme() {
    this.theme = themeOf(this.root);
    this.palette.dim(this.hits?.marks ?? null, this.theme.packed);
    this.minimap.stale();
    this.invalidate();
  }

  /** Go to a window, at once or in a few frames; leaves following unless it is kept. */
  goTo(window, isAtOnce = false, keepsFollowing = false) {
    if (!keepsFollowing && this.isFollowing) this.setFollowing(false);
    this.view.goal = clamped(window, this.view.limits);
    if (isAtOnce || this.isStill.matches) this.view.window = this.view.goal;
    this.invalidate();
    this.#restSoon();
  }

  #restSoon() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.#rest(), REST_MS);
  }

  /** What waits until nothing moves: finer tiles, the table, the address. */
  #rest() {
    // A window takes some 20 frames to its goal; a table of 50 rows would cost one of them.
    if (this.view.window !== this.view.goal) {
      this.#restSoon();
      return;
    }
    this.levels.rest(this.view.goal, this.screen.width, this.view.limits);
    this.table.update(this.store, this.lanes, this.view.goal, this.selectedId);
    const { from, to } = this.view.goal;
    this.parts.canvas.setAttribute("aria-label", `Timeline from ${duration(from)} to ${duration(to)}; the table below lists its longest spans.`);
    keepAddress(this);
  }

  get selectedId() {
    return this.selected ? this.selected.row.id[this.selected.span] : null;
  }

  /** Select a span, and move the window so that it is seen. */
  select(place, reveals = true) {
    this.selected = place;
    this.range = null;
    this.flows = flowOf(this.store, place);
    const lane = this.lanes.get(place.row.lane);
    if (lane && !blockOf(this.layout, lane.lane)) this.fold(groupOf(lane));
    if (reveals) {
      this.goTo(revealed(this.view.goal, place.row.start[place.span], place.row.end(place.span), this.view.limits));
      this.#scrollTo(place);
    }
    this.details.show(this.store, this.lanes, place);
    this.say(this.details.sentence(this.store, this.lanes, place));
    this.goTo(this.view.goal, false, this.isFollowing);
  }

  selectId(id) {
    const place = this.store.locate(id);
    if (place) this.select(place);
  }

  #scrollTo(place) {
    const block = blockOf(this.layout, place.row.lane);
    if (!block || block.isPinned) return;
    const top = topOf(block, this.parts.lanes.scrollTop), seen = this.parts.lanes.clientHeight - AXIS;
    const line = block.lines[Math.min(place.row.depth, block.lines.length - 1)];
    const at = top + line.y - block.y;
    if (at < this.layout.pinnedHeight || at + line.height > seen) this.parts.lanes.scrollTop += at - seen / 2;
  }

  /** Clear, one after the other: marking, range, selection, search. */
  clear() {
    if (this.isMarking) this.setMarking(false);
    else if (this.range) this.range = null;
    else if (this.selected) this.selected = null;
    else this.parts.search.value = "";
    this.flows = [];
    this.search(this.parts.search.value);
    if (this.selected) this.details.show(this.store, this.lanes, this.selected);
    else this.details.clear();
    this.goTo(this.view.goal, false, this.isFollowing);
  }

  /** Mark a range; once it is done its parts are shown. */
  mark(from, to, isDone) {
    this.range = { from: Math.min(from, to), to: Math.max(from, to) };
    this.invalidate();
    if (!isDone) return;
    this.setMarking(false);
    this.details.showRange(this.store, this.lanes, this.range);
    this.say(`Marked ${duration(this.range.to - this.range.from)}.`);
  }

  setMarking(isMarking) {
    this.isMarking = isMarking;
    this.root.classList.toggle("marking", isMarking);
    this.root.querySelector("[data-do=mark]").setAttribute("aria-pressed", String(isMarking));
  }

  setFollowing(isFollowing) {
    this.isFollowing = isFollowing && this.latest !== null;
    this.root.querySelector("[data-do=follow]").setAttribute("aria-pressed", String(this.isFollowing));
    this.invalidate();
  }

  /** Fold a lane or group, or unfold it. */
  fold(key) {
    this.#toggle(this.folding.folded, key);
  }

  /** Pin a lane to the top, or let it go. */
  pin(key) {
    this.#toggle(this.folding.pinned, key);
  }

  #toggle(keys, key) {
    if (!keys.delete(key)) keys.add(key);
    this.relayout();
    this.goTo(this.view.goal, false, this.isFollowing);
  }

  search(text) {
    this.hits = hitsOf(this.store, text);
    this.palette.dim(this.hits?.marks ?? null, this.theme.packed);
    this.parts.hits.textContent = this.hits ? `${count(this.hits.count)} ${this.hits.count === 1 ? "hit" : "hits"}` : "";
    this.minimap.stale();
    this.invalidate();
  }

  /** Say something to who hears the page. */
  say(text) {
    this.parts.spoken.textContent = text;
  }

  /** Note the newest time of a live run. */
  advance(to) {
    this.latest = { time: to, at: performance.now() };
    this.minimap.stale();
    this.invalidate();
  }

  /** A live run has ended. */
  rest() {
    this.latest = null;
    this.setFollowing(false);
  }

  invalidate() {
    if (this.layout) this.frame ??= requestAnimationFrame((at) => this.#tick(at));
  }

  #tick(at) {
    this.frame = null;
    if (this.isFollowing) this.#follow();
    const isMoving = this.view.window !== this.view.goal;
    if (isMoving) this.view.window = approached(this.view.window, this.view.goal);
    const began = performance.now();
    this.draw();
    this.frames.note(at, performance.now() - began, this.wasMoving);
    this.wasMoving = isMoving || (this.isFollowing && !this.isStill.matches);
    if (this.wasMoving) this.invalidate();
  }

  /** Slide with the run, a little behind it, so that spans arrive on the screen and not beyond it. */
  #follow() {
    const elapsed = this.isStill.matches ? 0 : (performance.now() - this.latest.at) * 1e6;
    const length = Math.min(this.view.goal.to - this.view.goal.from, FOLLOWED_NS);
    const to = Math.max(this.latest.time + Math.min(elapsed, LAG_NS) - LAG_NS / 2, this.view.limits.from + length);
    this.view.goal = this.view.window = { from: to - length, to };
  }

  draw() {
    const { store, layout, palette, theme, selected, hovered, range, flows, gaps, pointer } = this;
    const scene = { store, layout, palette, theme, selected, hovered, range, flows, gaps, pointer, scrolled: this.parts.lanes.scrollTop, window: this.view.window, hits: this.hits?.rows ?? null, now: this.latest?.time ?? null };
    if (this.palette.size < store.names.length) this.palette.learn(store.names);
    this.screen.draw(scene);
    this.minimap.draw(scene, this.view.limits, this.#minimapRows());
  }

  #minimapRows() {
    const rows = [...this.lanes.values()].filter((lane) => lane.group !== "counter").map((lane) => this.levels.overview.row(lane.lane, 0));
    return rows.filter((row) => row?.size).slice(0, MINIMAP_ROWS);
  }

  /** The span under a point of the canvas. */
  spanUnder(x, y) {
    const under = y < AXIS ? null : blockAt(this.layout, y - AXIS, this.parts.lanes.scrollTop);
    const row = under?.line && under.block.lane.group !== "counter" ? this.store.row(under.block.lane.lane, under.line.depth) : null;
    const { window } = this.view;
    const span = row ? spanNear(row, timeAt(window, x, this.screen.width), (window.to - window.from) / this.screen.width) : -1;
    return span >= 0 ? { row, span } : null;
  }

  #hover(x, y) {
    this.hovered = this.spanUnder(x, y);
    this.pointer = x >= 0 ? x : null;
    showTip(this.parts, this.store, this.hovered, x, y);
    this.invalidate();
  }

  #listen() {
    const { canvas, lanes, search, help, keys } = this.parts;
    listen(canvas, {
      window: () => this.view.window, width: () => this.screen.width, isMarking: () => this.isMarking,
      pan: (ns) => this.goTo(panned(this.view.window, this.view.limits, ns), true),
      zoom: (at, factor) => this.goTo(zoomed(this.view.window, this.view.limits, at, factor), true),
      hover: (x, y) => this.#hover(x, y), leave: () => this.#hover(-1, -1),
      range: (from, to, isDone) => this.mark(from, to, isDone),
      select: (x, y) => this.#click(x, y),
      open: (x, y) => this.spanUnder(x, y) && this.commands.fit(),
    });
    lanes.addEventListener("scroll", () => this.invalidate(), { passive: true });
    search.addEventListener("input", () => this.search(search.value));
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.commands[event.shiftKey ? "previousHit" : "nextHit"]();
      if (event.key === "Escape") lanes.focus();
    });
    for (const button of this.root.querySelectorAll("[data-do]")) button.addEventListener("click", () => this.commands[button.dataset.do]());
    document.addEventListener("keydown", (event) => this.#key(event));
    showHelp(keys);
    help.querySelector("button").addEventListener("click", () => help.close());
    new ResizeObserver(() => this.layout && this.resize()).observe(lanes);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.readTheme());
    document.addEventListener("themechange", () => this.readTheme());
  }

  #click(x, y) {
    this.parts.lanes.focus({ preventScroll: true });
    const place = this.spanUnder(x, y);
    if (place) this.select(place, false);
    else if (this.selected || this.range) this.clear();
  }

  #key(event) {
    if (this.parts.help.open) return;
    const action = actionOf(event, this.parts.lanes.contains(event.target));
    if (!action) return;
    event.preventDefault();
    this.commands[action]();
  }

  /** Figures for who measures: frames, spans held, received and dropped. */
  stats() {
    const { overview } = this.levels;
    const live = this.feed ? { received: this.feed.received, dropped: this.feed.dropped, repeated: this.feed.repeated } : {};
    return { ...this.frames.stats(), spans: overview.spans, held: overview.size, steps: this.screen.steps, isTiled: this.levels.isTiled, ...live };
  }
}
