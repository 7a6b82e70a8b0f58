// The table of runs: each row follows its run. The cells are those of templates/evaluation.html.

import { duration, percentile, rate } from "../quantities.js";
import { secondsLeft } from "./progress.js";

const OVER = ["recorded", "failed", "incomplete", "cancelled"];
const FIELDS = ["answered", "left", "state", "rate", "p50", "p99", "failed", "spans", "note"];

function rowOf(run) {
  return [...document.querySelectorAll("#runs tr")].find((row) => row.dataset.run === run);
}

function field(row, name) {
  return row.querySelector(`[data-field="${name}"]`);
}

function addRow(run) {
  const row = document.getElementById("runs").insertRow();
  row.dataset.run = run.run;
  const first = row.insertCell();
  const load = document.createElement("small");
  load.textContent = `${run.scenario}, batch ${run.batch_size}, ${run.agent}`;
  first.append(run.run, load);
  const second = row.insertCell();
  second.className = "progress";
  const bar = document.createElement("progress");
  bar.max = 1;
  bar.value = 0;
  bar.setAttribute("aria-label", `Queries of ${run.run}`);
  const small = document.createElement("small");
  const [answered, left] = [document.createElement("span"), document.createElement("span")];
  answered.dataset.field = "answered";
  answered.textContent = "0";
  left.dataset.field = "left";
  small.append(answered, " queries ", left);
  second.append(bar, small);
  for (const name of FIELDS.slice(2)) {
    const cell = row.insertCell();
    cell.dataset.field = name;
    if (["rate", "p50", "p99"].includes(name)) cell.className = "number live";
    else if (["failed", "spans"].includes(name)) cell.className = "number";
    else if (name === "note") cell.className = "long";
  }
  return row;
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
    field(row, "note").textContent = [run.cause, run.level_note].filter(Boolean).join("; ");
    if (isNewAttempt || run.answered || run.spans) {
      field(row, "answered").textContent = String(run.answered);
      field(row, "failed").textContent = String(run.failed_queries);
      field(row, "spans").textContent = String(run.spans);
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
    const before = isNewAttempt ? 0 : Number(field(row, name).textContent);
    field(row, name).textContent = String(Math.max(reading[name], before));
  }
  field(row, "p50").textContent = reading.p50_ns < 0 ? "" : duration(reading.p50_ns);
  field(row, "p99").textContent = reading.p99_ns < 0 ? "" : percentile(reading.p99_ns, "p99", reading.answered);
  if (reading.rate !== undefined) field(row, "rate").textContent = `${rate(reading.rate)}/s`;
  if (OVER.includes(row.dataset.state ?? "")) return;
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
  field(row, "left").textContent = left === undefined ? "" : `of at most ${queries}, ${Math.ceil(left)} s left`;
}
