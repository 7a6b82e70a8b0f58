// Keeps an evaluation's page up to date with server-sent events; without it the page is complete
// but static.

import { LiveSource } from "../live_source.js";
import { Histogram } from "./histogram.js";
import { Progress } from "./progress.js";
import { rows, showRuns, showReading } from "./runs.js";
import { sentence } from "./story.js";
import { Strips } from "./strips.js";

const article = document.getElementById("evaluation");
const evaluation = article?.dataset.evaluation;
const progress = new Progress();
let source = null;
let lastId = "";
let strips = null;
let histogram = null;

function set(id, text) {
  const field = document.getElementById(id);
  if (field && text !== undefined) field.textContent = text;
}

function stateMark(state) {
  const span = document.createElement("span");
  span.className = `state ${state}`;
  span.textContent = state;
  return span;
}

function addToLog(update) {
  const list = document.getElementById("log");
  const text = sentence(update);
  if (!list || !text) return;
  const line = document.createElement("li");
  if (update.time_ns) {
    const moment = new Date(update.time_ns / 1e6);
    const time = document.createElement("time");
    time.dateTime = moment.toISOString();
    time.textContent = moment.toLocaleTimeString("en-GB");
    line.append(time);
  }
  line.append(text);
  list.append(line);
  list.scrollTop = list.scrollHeight;
}

function showState(update, id) {
  lastId = id || lastId;
  document.getElementById("state").replaceChildren(stateMark(update.state));
  set("cause", update.cause);
  showRuns(update.runs ?? []);
  addToLog(update);
  const all = rows();
  const over = all.filter((row) => ["recorded", "failed", "incomplete"].includes(row.dataset.state));
  set("progress", all.length ? `${over.length} of ${all.length} have ended` : "");
}

/** Show the counts of all runs; the event has columns with an entry for each run. */
function showProgress(tick) {
  const changed = progress.take(tick);
  for (const reading of changed) showReading(reading);
  const current = changed.at(-1);
  if (current?.answered) showLive(current);
}

async function showLive(reading) {
  document.getElementById("live").hidden = false;
  set("live-run", reading.unheard ? `${reading.run}, only what came since somebody watches` : reading.run);
  strips ??= new Strips(article.dataset.uplot);
  histogram ??= new Histogram(document.getElementById("histogram"), article.dataset.trace);
  strips.add(reading);
  histogram.show(reading);
}

function showGap({ from, to }) {
  if (from === undefined) return; // spans that the timeline lacks, which it draws itself
  set("gap", `Updates ${from} to ${to} were skipped: this page was too slow. Counts are right again with the next.`);
  document.getElementById("gap").hidden = false;
}

/** Replace the page by its final version from the server. */
async function showRecord() {
  source.end();
  try {
    const response = await fetch(location.href);
    if (!response.ok) throw new Error(`the gateway answered ${response.status}`);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const link of fresh.querySelectorAll("link[rel=stylesheet]")) {
      if (!document.querySelector(`link[href="${link.getAttribute("href")}"]`)) document.head.append(link.cloneNode());
    }
    document.querySelector("main").replaceChildren(...fresh.querySelector("main").childNodes);
  } catch {
    setTimeout(showRecord, 2000);
  }
}

if (article?.dataset.live === "yes") {
  source = new LiveSource({
    address: () => `/api/evaluations/${evaluation}/events?after=${lastId}`,
    actions: { state: showState, run: showState, progress: showProgress, gap: showGap, end: showRecord },
    banner: document.getElementById("connection"),
    stale: article,
  });
  source.open();
}
