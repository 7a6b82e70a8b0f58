// The table of runs: each row follows its run. The cells are those of templates/parts/results.html.

import { percentile, rate } from "../quantities.js";
import { secondsLeft } from "./progress.js";

const OVER = ["recorded", "failed", "incomplete", "cancelled"];

/** Return the rows of all runs, each a table body of its own. */
export function rows() {
  return [...document.querySelectorAll("#runs [data-run]")];
}

function rowOf(run) {
  return rows().find((row) => row.dataset.run === run);
}

function field(row, name) {
  return row.querySelector(`[data-field="${name}"]`);
}

/** Show a whole number with all its digits: 1,023. */
function writeCount(row, name, number) {
  field(row, name).textContent = number.toLocaleString("en");
}

function countOf(row, name) {
  return Number(field(row, name).textContent.replaceAll(",", ""));
}

function addRow(run) {
  const row = document.getElementById("run-template").content.firstElementChild.cloneNode(true);
  row.dataset.run = run.run;
  row.querySelector("progress").setAttribute("aria-label", `Queries of ${run.run}`);
  const texts = { load: run.scenario, batch: run.batch_size, level: run.level, name: run.run, agent: run.agent };
  for (const [name, text] of Object.entries(texts)) field(row, name).textContent = String(text);
  document.getElementById("runs").append(row);
  return row;
}

/** Show how many queries failed, where any did. */
function showFailed(row, count) {
  writeCount(row, "failed", count);
  row.querySelector(".failures").hidden = !count;
}

/** Show the state of runs, as `/api/evaluations/{id}` has them; rows that lack are added. */
export function showRuns(runs) {
  for (const run of runs) {
    const row = rowOf(run.run) ?? addRow(run);
    const isNewAttempt = run.attempt > Number(row.dataset.attempt ?? 0);
    row.dataset.attempt = String(Math.max(run.attempt, Number(row.dataset.attempt ?? 0)));
    row.dataset.queries = String(run.queries);
    row.dataset.state = run.state;
    const mark = document.createElement("span");
    mark.className = `state ${run.state}`;
    mark.textContent = run.state;
    field(row, "state").replaceChildren(mark);
    field(row, "note").textContent = run.cause ?? "";
    if (isNewAttempt || run.answered || run.spans) {
      writeCount(row, "answered", run.answered);
      showFailed(row, run.failed_queries);
      writeCount(row, "spans", run.spans);
    }
    if (OVER.includes(run.state)) {
      row.querySelector("progress").value = 1;
      field(row, "left").textContent = "";
    }
  }
}

/** Show a reading in its run's row; counts never go back within an attempt. */
export function showReading(reading) {
  const row = rowOf(reading.run);
  if (!row || reading.attempt < Number(row.dataset.attempt ?? 0)) return;
  const isNewAttempt = reading.attempt > Number(row.dataset.attempt ?? 0);
  row.dataset.attempt = String(reading.attempt);
  for (const name of ["answered", "failed", "spans"]) {
    writeCount(row, name, Math.max(reading[name], isNewAttempt ? 0 : countOf(row, name)));
  }
  showFailed(row, countOf(row, "failed"));
  field(row, "p50").textContent = percentile(reading.p50_ns, "p50", reading.answered);
  field(row, "p90").textContent = percentile(reading.p90_ns, "p90", reading.answered);
  field(row, "p99").textContent = percentile(reading.p99_ns, "p99", reading.answered);
  if (reading.samplesRate !== undefined) field(row, "rate").textContent = `${rate(reading.samplesRate)} /s`;
  if (OVER.includes(row.dataset.state ?? "")) return;
  if (reading.unheard) {
    // Nobody watched from the beginning, so there is no share and no time left to show.
    row.querySelector("progress").removeAttribute("value");
    field(row, "left").textContent = "seen; others came before anybody watched";
    return;
  }
  const queries = Number(row.dataset.queries ?? 0);
  const answered = reading.answered + reading.failed;
  if (answered > queries) {
    // How many blocks follow is decided by what they bring, so there is no share to show.
    row.querySelector("progress").removeAttribute("value");
    field(row, "left").textContent = "until precise enough";
    return;
  }
  row.querySelector("progress").value = queries ? answered / queries : 0;
  const left = secondsLeft(queries, reading);
  field(row, "left").textContent = left === undefined ? "" : `of at most ${queries.toLocaleString("en")}, ${Math.ceil(left)} s left`;
}
