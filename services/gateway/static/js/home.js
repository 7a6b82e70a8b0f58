// Keeps the first page up to date: progress as numbers, everything else by asking for the page
// again when the server says that it is another one. Without JavaScript the page is static.

import { LiveSource } from "./live_source.js";
import { percentile, rate } from "./quantities.js";
import { update as updateSelection } from "./selection.js";

const AGAIN_MS = 3000;
const SECTIONS = ["now", "regressions", "fleet", "latest"];
/** Attributes that name what can have the focus; the first that it has counts. */
const FOCUSED_BY = ["id", "href", "value", "aria-label"];
const home = document.getElementById("home");
let isAsking = false;

/** Show an evaluation's live figures: those of the run that answered most recently started. */
function showProgress(update) {
  for (const item of home.querySelectorAll("[data-evaluation]")) {
    const started = new Map([...item.querySelectorAll("[data-run]")].map((run) => [run.dataset.run, Number(run.dataset.queries)]));
    update.evaluation.forEach((evaluation, index) => {
      if (evaluation === item.dataset.evaluation && started.has(update.run[index])) showRun(item, update, index, started.get(update.run[index]));
    });
  }
}

function showRun(item, update, index, planned) {
  const set = (field, text) => {
    item.querySelector(`[data-field=${field}]`).textContent = text;
  };
  set("rate", rate(update.queries_per_s[index]));
  set("p50", percentile(update.p50_ns[index], "p50", update.answered[index]));
  set("p99", percentile(update.p99_ns[index], "p99", update.answered[index]));
  const bar = item.querySelector("progress");
  const { runs, over } = bar.dataset;
  const share = planned ? Math.min(1, update.answered[index] / planned) : 0;
  if (runs > 0) bar.value = (Number(over) + share) / runs;
}

/** Replace the sections that differ by those of the server's page; the focus stays where it was. */
async function showChange({ digest }) {
  if (digest === home.dataset.digest || isAsking) return;
  isAsking = true;
  try {
    const response = await fetch(location.href);
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("home");
    const focused = selectorOf(document.activeElement);
    keepSelection(fresh);
    replaceSections(fresh);
    updateSelection();
    home.dataset.digest = fresh.dataset.digest;
    if (focused && document.activeElement === document.body) home.querySelector(focused)?.focus();
  } catch {
    // The stream says what is wrong, if it goes on.
    setTimeout(() => showChange({ digest }), AGAIN_MS);
  } finally {
    isAsking = false;
  }
}

/** What finds a link, box, button or table again on the next page; "" for what is not of this page's sections. */
function selectorOf(element) {
  const name = FOCUSED_BY.find((attribute) => element?.hasAttribute(attribute));
  return name && home.contains(element) ? `${element.localName}[${name}="${CSS.escape(element.getAttribute(name))}"]` : "";
}

function keepSelection(fresh) {
  for (const box of home.querySelectorAll("input[name=evaluation]:checked")) {
    fresh.querySelector(`input[value="${CSS.escape(box.value)}"]`)?.setAttribute("checked", "");
  }
}

function replaceSections(fresh) {
  const order = [...fresh.children];
  for (const id of SECTIONS) {
    const now = document.getElementById(id);
    const next = order.find((section) => section.id === id);
    if (now && !next) now.remove();
    else if (now && next && now.innerHTML !== next.innerHTML) now.replaceWith(next);
    else if (!now && next) home.append(next);
  }
  for (const id of SECTIONS) {
    const section = document.getElementById(id);
    if (section) home.append(section);
  }
}

if (home) {
  new LiveSource({
    address: () => `/api/events?after=${home.dataset.digest}`,
    actions: { progress: showProgress, changed: showChange },
    banner: document.getElementById("connection"),
    stale: home,
  }).open();
}
