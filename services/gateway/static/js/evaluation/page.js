// Keeps an evaluation's page up to date with server-sent events; without it the page is complete
// but static. The EventSource is closed while the tab is hidden: HTTP/1.1 allows six connections.

import { Histogram } from "./histogram.js";
import { Progress } from "./progress.js";
import { rows, showRuns, showReading } from "./runs.js";
import { sentence } from "./story.js";
import { Strips } from "./strips.js";

const STALE_MS = 1500;
const article = document.getElementById("evaluation");
const evaluation = article?.dataset.evaluation;
const progress = new Progress();
let source = null;
let lastId = "";
let lastHeard = Date.now();
let cutSince = 0;
let hasCome = false;
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

/** Note that the stream is alive: what the page shows is of now. */
function hear() {
  lastHeard = Date.now();
  cutSince = 0;
  hasCome = true;
  document.getElementById("connection").hidden = true;
  article.classList.remove("stale");
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

function showState(event) {
  hear();
  lastId = event.lastEventId || lastId;
  const update = JSON.parse(event.data);
  document.getElementById("state").replaceChildren(stateMark(update.state));
  set("cause", update.cause);
  showRuns(update.runs ?? []);
  addToLog(update);
  const all = rows();
  const over = all.filter((row) => ["recorded", "failed", "incomplete"].includes(row.dataset.state));
  set("progress", all.length ? `${over.length} of ${all.length} have ended` : "");
}

/** Show the counts of all runs; the event has columns with an entry for each run. */
function showProgress(event) {
  hear();
  const changed = progress.take(JSON.parse(event.data));
  for (const reading of changed) showReading(reading);
  const current = changed.at(-1);
  if (current?.answered) showLive(current);
}

async function showLive(reading) {
  document.getElementById("live").hidden = false;
  set("live-run", reading.run);
  strips ??= new Strips(article.dataset.uplot);
  histogram ??= new Histogram(document.getElementById("histogram"));
  strips.add(reading);
  histogram.show(reading);
}

function showGap(event) {
  const { from, to } = JSON.parse(event.data);
  if (from === undefined) return; // spans that the timeline lacks, which it draws itself
  set("gap", `Updates ${from} to ${to} were skipped: this page was too slow. Counts are right again with the next.`);
  document.getElementById("gap").hidden = false;
}

/** Say that figures are old while nothing comes: never show them as live. */
function watch() {
  if (!source || !cutSince || Date.now() - cutSince < STALE_MS) return;
  const age = Math.round((Date.now() - lastHeard) / 1000);
  const banner = document.getElementById("connection");
  const retry = document.createElement("button");
  retry.textContent = "Try now";
  retry.type = "button";
  retry.addEventListener("click", () => { close(); open(); });
  const what = hasCome ? `These figures are ${age} s old` : "No update has come";
  banner.replaceChildren(`${what}: the connection to the gateway is cut. It is tried again by itself. `, retry);
  banner.hidden = false;
  article.classList.add("stale");
}

/** Replace the page by its final version from the server. */
async function showRecord() {
  close();
  try {
    const response = await fetch(location.href);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const link of fresh.querySelectorAll("link[rel=stylesheet]")) {
      if (!document.querySelector(`link[href="${link.getAttribute("href")}"]`)) document.head.append(link.cloneNode());
    }
    document.querySelector("main").replaceChildren(...fresh.querySelector("main").childNodes);
  } catch {
    setTimeout(showRecord, 2000);
  }
}

function open() {
  if (source || document.hidden) return;
  source = new EventSource(`/api/evaluations/${evaluation}/events?after=${lastId}`);
  source.addEventListener("open", () => { cutSince = 0; document.getElementById("connection").hidden = true; });
  source.addEventListener("error", () => { cutSince ||= Date.now(); });
  source.addEventListener("state", showState);
  source.addEventListener("run", showState);
  source.addEventListener("progress", showProgress);
  source.addEventListener("gap", showGap);
  source.addEventListener("end", showRecord);
}

function close() {
  source?.close();
  source = null;
}

if (article?.dataset.live === "yes") {
  document.addEventListener("visibilitychange", () => {
    const isLive = document.getElementById("evaluation")?.dataset.live === "yes";
    if (document.hidden || !isLive) close();
    else open();
  });
  setInterval(watch, 500);
  open();
}
