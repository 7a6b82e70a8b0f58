"""Outputs: the model's answers to each sample, the best five first."""

from typing import Any

from mlscope.counts import many, verb
from mlscope.texts.features import feature_lines
from schemas.analysis import Table
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    bool_column,
    float_column,
    int_column,
    make_table,
    run_cells,
    text_column,
)
from services.analyzer.frames.evaluation import Frames, Run
from services.analyzer.frames.predictions import Prediction, predictions_of

TOP = 5
MOST_SAMPLES = 100


def outputs(frames: Frames) -> Table:
    """Return the top answers to each sample, from one run a session; others are compared to it."""
    rows: list[dict[str, Any]] = []
    caveats = list(frames.caveats)
    shown: dict[str, dict[int, str]] = {}
    for run in frames.measured:
        last_first = reversed(list(predictions_of(run, frames.samples)))
        # The first answer with features to each sample.
        first = {answer.sample: answer for answer in last_first if answer.features}
        if not first:
            continue
        best = {sample: str(prediction.best or "") for sample, prediction in first.items()}
        if (labels := shown.get(run.row.session)) is not None:
            both = labels.keys() & best.keys()
            differing = sum(labels[sample] != best[sample] for sample in both)
            differ = verb(differing, "differs", "differ")
            of_labels = many(len(both), "first label")
            caveats += [f"{run.row.run}: {differing} of {of_labels} {differ}"] if differing else []
            continue
        shown[run.row.session] = best
        if len(first) > MOST_SAMPLES:
            caveats.append(f"{run.row.run}: {MOST_SAMPLES} of {len(first)} samples are shown")
        for sample in sorted(first)[:MOST_SAMPLES]:
            rows += _answer_rows(run, first[sample])
    verdict = _verdict(rows, frames.scoring_context.unscorable_reason)
    return make_table(ANALYSIS, rows, verdict, caveats)


def _verdict(rows: list[dict[str, Any]], unscorable_reason: str) -> str:
    """Return the result of the first session; others answer the same samples again."""
    first = [r for r in rows if r["rank"] == 1 and r["session"] == rows[0]["session"]]
    judged = [row for row in first if row["is_correct"] is not None]
    if judged:
        right = sum(row["is_correct"] for row in judged)
        labelled = many(len(judged), "labelled sample")
        reason = f"; {unscorable_reason}" if unscorable_reason else ""
        return f"The first label is right for {right} of {labelled}{reason}."
    stored = many(len(first), "sample")
    return f"Outputs of {stored} were stored." if first else "No output was stored."


def _answer_rows(run: Run, prediction: Prediction) -> list[dict[str, Any]]:
    """Return the rows of an answer in a run: its best features, `TOP` lines or fewer."""
    features = prediction.features[:TOP]
    lines = [(line, feature) for feature in features for line in feature_lines([feature])]
    return [
        {
            **run_cells(run.row),
            "session": run.row.session,
            "sample": prediction.sample,
            "name": prediction.name or f"#{prediction.sample}",
            "rank": rank,
            "label": line.answer,
            "probability": line.probability,
            "detail": line.detail,
            "is_correct": prediction.is_right(feature),
        }
        for rank, (line, feature) in enumerate(lines[:TOP], start=1)
    ]


ANALYSIS = Analysis(
    name="outputs",
    title="Answers of the model",
    source="The last step of the model's output pipeline; each sample's first query.",
    columns=(
        *RUN_COLUMNS,
        text_column("session", "The session, of which one run is shown."),
        int_column("sample", "The sample's index in its dataset."),
        text_column("name", "The sample's name."),
        int_column("rank", "Rank of the answer; 1 is the most probable."),
        text_column("label", "The label, the text, or another answer in words."),
        float_column("probability", "Probability of the answer.", "1"),
        text_column("detail", "Position of a box, size of a picture, or share of a class."),
        bool_column(
            "is_correct", "Whether the dataset has this label for the sample; null without labels."
        ),
    ),
    compute=outputs,
)
