// Keeps an evaluation's page up to date with server-sent events; without it the page is complete
// but static. The EventSource is closed while the tab is hidden: HTTP/1.1 allows six connections.

const article = document.getElementById("evaluation");
const evaluation = article?.dataset.evaluation;
let source = null;
let lastId = "";

/** Return a latency in ns as text with a suitable unit. */
function duration(ns) {
  if (ns < 0) return "";
  const [factor, unit] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${Number((ns / factor).toPrecision(3))} ${unit}`;
}

function mark(state) {
  const span = document.createElement("span");
  span.className = `state ${state}`;
  span.textContent = state;
  return span;
}

function set(id, text) {
  const field = document.getElementById(id);
  if (field && text !== undefined) field.textContent = text;
}

function notes(run) {
  return [run.cause, run.level_note, ...run.caveats].filter(Boolean).join("; ");
}

/** Tell whether a row has the counts of an earlier attempt, and note the new attempt in it. */
function isNewAttempt(row, attempt) {
  const isNew = attempt > Number(row.dataset.attempt ?? 0);
  if (isNew) row.dataset.attempt = attempt;
  return isNew;
}

/** Update a run's row, or add it. The columns are those of pages/evaluation.py. */
function showRun(run) {
  const body = document.getElementById("runs");
  let row = [...body.children].find((candidate) => candidate.dataset.run === run.run);
  if (!row) {
    row = body.insertRow();
    row.dataset.run = run.run;
    for (let column = 0; column < 12; column += 1) row.insertCell();
  }
  const texts = { 0: run.run, 1: run.scenario, 2: run.batch_size, 3: run.level, 4: run.agent, 11: notes(run) };
  if (isNewAttempt(row, run.attempt) || run.answered || run.spans) Object.assign(texts, { 6: run.answered, 7: run.failed_queries, 8: run.spans });
  for (const [column, text] of Object.entries(texts)) row.cells[column].textContent = text;
  row.cells[5].replaceChildren(mark(run.state));
}

function showState(event) {
  lastId = event.lastEventId || lastId;
  const update = JSON.parse(event.data);
  document.getElementById("state").replaceChildren(mark(update.state));
  set("cause", update.cause);
  set("agents", update.agents?.join(", "));
  if (update.framework) set("framework", `${update.framework} on ${update.device}`);
  for (const run of update.runs ?? []) showRun(run);
  const ended = document.querySelectorAll("#runs .recorded, #runs .failed, #runs .incomplete").length;
  const all = document.querySelectorAll("#runs tr").length;
  set("progress", `${update.happened} · ${ended} of ${all} runs recorded`);
}

/** Update the counts of all runs; the event has columns with an entry for each run. */
function showProgress(event) {
  const update = JSON.parse(event.data);
  update.run.forEach((run, index) => {
    const row = document.querySelector(`#runs tr[data-run="${CSS.escape(run)}"]`);
    const attempt = update.attempt[index];
    if (!row || attempt < Number(row.dataset.attempt ?? 0)) return;
    const isNew = isNewAttempt(row, attempt);
    const values = { 6: update.answered, 7: update.failed, 8: update.spans };
    for (const [column, counts] of Object.entries(values)) {
      const current = isNew ? 0 : Number(row.cells[column].textContent);
      row.cells[column].textContent = Math.max(counts[index], current);
    }
    row.cells[9].textContent = duration(update.p50_ns[index]);
    row.cells[10].textContent = duration(update.p99_ns[index]);
  });
}

function showGap(event) {
  const { from, to } = JSON.parse(event.data);
  if (from === undefined) return; // spans that the timeline lacks, which it draws itself
  set("gap", `updates ${from} to ${to} were skipped: this page was too slow`);
}

/** Replace the page by its final version from the server. */
async function showRecord() {
  close();
  const response = await fetch(location.href);
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  document.querySelector("main").replaceChildren(...fresh.querySelector("main").childNodes);
}

function open() {
  if (source || document.hidden) return;
  source = new EventSource(`/api/evaluations/${evaluation}/events?after=${lastId}`);
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
    const isLive = document.getElementById("evaluation").dataset.live === "yes";
    if (document.hidden || !isLive) close();
    else open();
  });
  open();
}
