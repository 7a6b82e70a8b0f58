/** The page of a trace: loads a run's spans, stored or live, and shows them in its timeline. */

import { LiveSource } from "../live_source.js";
import { DetailLevels } from "./data/detail_levels.js";
import { LiveFeed } from "./data/live.js";
import { Source } from "./data/source.js";
import { inOrder } from "./drawing/layout.js";
import { count, duration, percent } from "./format.js";
import { Timeline } from "./timeline.js";

const RELAYOUT_MS = 500;
const LIVE_SPAN_NS = 5e9;
const AGAIN_MS = 1500;

const root = document.getElementById("timeline");
let isReloading = false;

const TABLES = {
  layer: [["this layer in A2", "A2"], ["its point on the roofline, A14", "A14"]],
  kernel: [["this kernel in A8", "A8"], ["all of its name in A10", "A10"]],
};

/** Tables of the evaluation with a layer, by its number: those of kernels where the run has any. */
function layerLinks(layer, hasDevice) {
  const tables = hasDevice ? ["A2", "A3", "A4", "A11", "A13", "A14"] : ["A2", "A3", "A4", "A14"];
  const titles = { A2: "this layer in A2", A14: "its dot on the roofline, A14" };
  return tables.map((analysis) => [titles[analysis] ?? analysis, `${root.dataset.page}/analyses/${analysis}?layer=${layer}`]);
}

/**
 * Tables of the evaluation that know a span of a level; the browser scrolls to its name. Once the number
 * of its layer is known, those of layers with the layer chosen.
 */
function links(level, name, layer = -1, hasDevice = false) {
  const own = level === "layer" ? [] : TABLES[level] ?? [];
  if (layer >= 0) return [...layerLinks(layer, hasDevice), ...namedLinks(own, name)];
  return namedLinks(TABLES[level] ?? [], name);
}

function namedLinks(tables, name) {
  const text = encodeURIComponent(name.slice(0, 100)).replaceAll("-", "%2D");
  const query = `?run=${encodeURIComponent(root.dataset.run)}#:~:text=${text}`;
  return tables.map(([title, analysis]) => [title, `${root.dataset.page}/analyses/${analysis}${query}`]);
}

/** Say in the status line what is shown, of how much. */
function showCount(timeline, trace) {
  const { overview, isTiled, isPartial } = timeline.levels;
  const total = Math.max(trace.spans, overview.spans);
  const ofLoad = (trace.lanes ?? []).reduce((sum, lane) => sum + (lane.group === "load" ? lane.spans : 0), 0);
  const origin = ofLoad ? `: ${count(total - ofLoad)} captured, ${count(ofLoad)} of the load` : "";
  const parts = [`${count(overview.spans)} of ${count(total)} spans${origin}`];
  if (isTiled) parts.push(`shown as ${count(timeline.store.size)} tiles: zoom in for single spans`);
  if (isPartial) parts.push("shown as tiles while single spans load…");
  if (trace.unread) parts.push(`${count(trace.unread)} not read`);
  if (trace.dropped) parts.push(`${count(trace.dropped)} dropped while measuring`);
  const gaps = timeline.gaps.length;
  if (gaps) parts.push(`${count(gaps)} ${gaps === 1 ? "gap" : "gaps"} (hatched)`);
  parts.push(duration(timeline.view.limits.to - timeline.view.limits.from));
  timeline.parts.count.textContent = parts.join(" · ");
}

function show(state, text = "") {
  root.dataset.state = state;
  root.querySelector("[data-part=state]").textContent = text;
}

/** Load a run that is measured, and show it. */
async function openStored(source, timeline) {
  const progress = root.querySelector("[data-part=progress]");
  const trace = await source.overview((share, spans) => {
    show("preparing", `Preparing ${count(spans)} spans for the first view of this run: ${percent(share)}. The next view is quick.`);
    progress.value = share;
  });
  if (trace.spans === 0) {
    show("empty", "This run has no spans. A deeper trace is asked for with --trace-level, such as framework.");
    return;
  }
  show("loading", `Loading ${count(trace.spans)} spans…`);
  await timeline.levels.load(trace, root.clientWidth);
  const [from, to] = trace.range_ns;
  timeline.setLanes(trace.lanes, trace.gaps);
  show("shown");
  timeline.arrived({ from, to: Math.max(to, timeline.levels.overview.end) }, true);
  timeline.levels.onChange = () => {
    timeline.refined();
    showCount(timeline, trace);
  };
  showCount(timeline, trace);
  if (!timeline.levels.isPartial) return;
  await timeline.levels.complete(trace);
  timeline.completed();
  showCount(timeline, trace);
}

/** Show a run while it goes on; when the evaluation has ended, the stored spans take over. */
async function openLive(_, timeline) {
  const state = { lanes: [], isNew: true };
  const store = timeline.levels.overview;
  const arrived = () => {
    const limits = { from: Math.min(0, store.start), to: Math.max(store.end, LIVE_SPAN_NS) };
    if (state.isNew) {
      show("shown");
      timeline.setLanes(state.lanes, timeline.gaps);
      timeline.arrived(limits, true);
      timeline.advance(store.end);
      timeline.setFollowing(true);
    }
    timeline.view.limits = limits;
    timeline.advance(store.end);
    state.isNew = false;
  };
  const runs = new MeasuredRuns();
  const feed = new LiveFeed(`${root.dataset.api}/events`, root.dataset.run, (text) => store.nameOf(text), {
    onRuns: (states) => runs.hear(states),
    onLanes: (lanes) => {
      state.lanes = inOrder(lanes);
      if (!state.isNew) timeline.setLanes(state.lanes, timeline.gaps);
    },
    onBatch: (batch) => {
      store.append(batch);
      arrived();
    },
    onGap: (gap) => {
      timeline.gaps = [...timeline.gaps, { lane: null, ...gap }];
      timeline.invalidate();
    },
    onEnd: () => {
      runs.end();
      setTimeout(() => reload(location.href), AGAIN_MS);
    },
    banner: document.getElementById("connection"),
    stale: root,
  });
  timeline.feed = feed;
  timeline.live = setInterval(() => refresh(timeline, state), RELAYOUT_MS);
  show("waiting", "Waiting for the first spans of this run…");
  feed.open();
}

/** What need not happen with each batch: layout where lanes grew, the table, the count. */
function refresh(timeline, state) {
  if (state.isNew) return;
  const { overview } = timeline.levels;
  for (const lane of state.lanes) {
    const rows = overview.rowsOf(lane.lane);
    lane.spans = rows.reduce((sum, row) => sum + row.spans, 0);
    lane.depth_max = Math.max(0, rows.length - 1);
  }
  const shape = state.lanes.map((lane) => `${lane.key} ${lane.depth_max}`).join();
  if (shape !== state.shape) timeline.setLanes(state.lanes, timeline.gaps);
  state.shape = shape;
  timeline.refreshed();
  const { received, dropped } = timeline.feed;
  showCount(timeline, { spans: received + dropped, dropped });
}

/** Beside the record of a run, while its evaluation goes on: wait for another run that is measured. */
function awaitOther() {
  const runs = new MeasuredRuns();
  const hear = (event) => runs.hear(event.runs ?? []);
  const end = () => {
    source.end();
    runs.end();
  };
  const actions = { run: hear, state: hear, end };
  const source = new LiveSource({ address: () => `${root.dataset.api}/events`, actions, banner: null, stale: null });
  source.open();
}

/**
 * The states of an evaluation's runs. When they have come to rest, and the run that is shown is not
 * measured, a run that is measured takes its place.
 */
class MeasuredRuns {
  #states = new Map();
  #rest = 0;

  /** Take the states that an event tells. */
  hear(runs) {
    for (const { run, state } of runs) this.#states.set(run, state);
    clearTimeout(this.#rest);
    this.#rest = setTimeout(() => this.#look(), AGAIN_MS);
  }

  /** The evaluation has ended: nothing is measured any more. */
  end() {
    clearTimeout(this.#rest);
    showOther("");
  }

  #look() {
    const started = [...this.#states.keys()].filter((run) => this.#states.get(run) === "started");
    if (started.length === 0 || started.includes(root.dataset.run)) showOther("");
    else moveTo(started[0]);
  }
}

/** Show the run that is measured now; where the address asks for a run or a span, only say which it is. */
function moveTo(run) {
  const address = new URLSearchParams(location.search);
  if (address.has("run") || address.has("sel")) showOther(run);
  else reload(location.pathname);
}

/** Load a page in place of this one, once; while the gateway does not answer, this one is worth more than none. */
async function reload(address) {
  if (isReloading) return;
  isReloading = true;
  while (!(await fetch(address).catch(() => null))?.ok) await new Promise((again) => setTimeout(again, AGAIN_MS));
  const own = location.href.split("#")[0];
  // To replace a page by its own address with a fragment only scrolls.
  if (new URL(address, own).href.split("#")[0] === own) location.reload();
  else location.replace(address);
}

/** Say which run is measured now, in place of the one that is shown; '' for none. */
function showOther(run) {
  const part = root.querySelector("[data-part=other]");
  if ((part.dataset.run ?? "") === run) return;
  part.dataset.run = run;
  if (!run) return part.replaceChildren();
  const link = Object.assign(document.createElement("a"), { href: `?run=${encodeURIComponent(run)}`, textContent: `${run} is measured now` });
  part.replaceChildren(link);
}

/** The menu of a narrow screen: closed by a command in it, Escape, or a press elsewhere. */
function listenMenu() {
  const more = root.querySelector(".more");
  const set = (isOpen) => more.setAttribute("aria-expanded", String(isOpen));
  more.addEventListener("click", () => set(more.getAttribute("aria-expanded") !== "true"));
  document.addEventListener("click", (event) => event.target !== more && set(false));
  root.addEventListener("keydown", (event) => event.key === "Escape" && set(false));
}

/** The list of runs: one that is chosen is shown at once, also if that was before this script ran. */
function listenPicker(run) {
  const picker = document.querySelector(".run-picker");
  if (!picker) return;
  const select = picker.querySelector("select");
  select.addEventListener("change", () => picker.submit());
  if (select.value !== run) picker.submit();
  else picker.querySelector("button").setAttribute("hidden", "");
}

/** Let a reader load the page again: what was chosen is in its address. */
function offerAgain() {
  const button = root.querySelector("[data-part=again]");
  button.hidden = false;
  button.addEventListener("click", () => location.reload());
}

async function open() {
  listenMenu();
  const { api, run, live, ongoing } = root.dataset;
  listenPicker(run);
  root.hidden = false;
  const source = new Source(api, run);
  const timeline = new Timeline(root, new DetailLevels(source, () => {}), { details: (id, signal) => source.details(id, signal), links });
  root.querySelector("[data-do=follow]").hidden = live !== "yes";
  try {
    if (live !== "yes" && ongoing === "yes") awaitOther();
    await (live === "yes" ? openLive : openStored)(source, timeline);
  } catch (error) {
    show("failed", `The spans could not be loaded: ${error.message}`);
    offerAgain();
  }
}

if (root) open();
