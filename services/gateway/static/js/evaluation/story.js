// What happened, in words: one sentence for each event of an evaluation's story.

/** Of a run: what its event says, without the run's name. */
const OF_RUN = {
  "evaluation.started": (run) => `starts on ${run.agent}${run.attempt > 1 ? `, attempt ${run.attempt}` : ""}`,
  "run.ready": (run) => `has its model open on ${run.agent}`,
  "evaluation.interrupted": (run) => `was interrupted${because(run)}`,
  "evaluation.issued": () => "has issued all its queries",
  "run.completed": (run) => `has ended: ${run.answered.toLocaleString("en")} queries answered${failures(run)}`,
  "run.failed": (run) => `failed${because(run)}`,
  "run.recorded": (run) => `is recorded: ${run.answered.toLocaleString("en")} queries, ${run.spans.toLocaleString("en")} spans`,
  "run.incomplete": (run) => `is recorded in part${because(run)}`,
};

/** Of the evaluation as a whole. */
const OF_EVALUATION = {
  "evaluation.requested": () => "The evaluation was requested.",
  "evaluation.postponed": (update) => `It waits${because(update)}.`,
  "evaluation.planned": (update) => `It is planned: ${count(update.runs?.length ?? 0, "run")} on ${update.agents?.join(", ")}.`,
  "evaluation.measured": () => "All runs have ended; the analyses are being computed.",
  "evaluation.analyzed": (update) => `The analyses are ready: ${count(update.tables?.length ?? 0, "table")}.`,
  "evaluation.failed": (update) => `The evaluation failed${because(update)}.`,
  "evaluation.cancelled": (update) => `The evaluation was cancelled${because(update)}; what was measured is kept.`,
  "analysis.completed": () => "The tables are stored.",
  "analysis.failed": (update) => `The analyses failed${because(update)}.`,
};

function because({ cause }) {
  return cause ? `: ${cause}` : "";
}

function failures({ failed_queries: failed }) {
  return failed ? `, ${failed} failed` : "";
}

function count(number, name) {
  return `${number} ${name}${number === 1 ? "" : "s"}`;
}

/**
 * Return an event of the stream as a sentence.
 * Of an event that this version does not know it is its name with spaces: never nothing.
 */
export function sentence(update) {
  const [run] = update.runs ?? [];
  const isOfRun = update.happened in OF_RUN || update.happened.startsWith("run.");
  if (isOfRun && run) {
    const tell = OF_RUN[update.happened];
    return `${run.run} ${tell ? tell(run) : update.happened.replace("run.", "is ").replaceAll("_", " ")}.`;
  }
  const tell = OF_EVALUATION[update.happened];
  return tell ? tell(update) : `${update.happened.replaceAll(".", " ").replaceAll("_", " ")}.`;
}
