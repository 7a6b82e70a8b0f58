"""Outputs: what the model said of each sample, best five first."""

from typing import Any

from mlscope.answers import lines_of
from mlscope.counts import many, verb
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run, Sample
from services.analyzer.predictions import Feature, Prediction, predictions_of
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    made,
    real,
    run_cells,
    text,
    truth,
    whole,
)

TOP = 5
MOST_SAMPLES = 100


def outputs(frames: Frames) -> Table:
    """Return the top answers of each sample, from one run a session; others are compared to it."""
    rows: list[dict[str, Any]] = []
    caveats = list(frames.caveats)
    seen: dict[str, dict[int, str]] = {}
    for run in frames.measured:
        tops = _first_by_sample(run, frames.samples)
        if not tops:
            continue
        best = {sample: str(each.best or "") for sample, each in tops.items()}
        if run.row.session in seen:
            caveats += _disagreement(run, seen[run.row.session], best)
            continue
        seen[run.row.session] = best
        if len(tops) > MOST_SAMPLES:
            caveats.append(f"{run.row.run}: {MOST_SAMPLES} of {len(tops)} samples are shown")
        for sample in sorted(tops)[:MOST_SAMPLES]:
            rows += _rows(run, tops[sample])
    return made(ANALYSIS, rows, _verdict(rows, frames.aim.hopeless), caveats)


def _verdict(rows: list[dict[str, Any]], hopeless: str) -> str:
    """Tell of the first session: others answer the same samples once more."""
    first = [r for r in rows if r["rank"] == 1 and r["session"] == rows[0]["session"]]
    judged = [row for row in first if row["is_correct"] is not None]
    if judged:
        right = sum(row["is_correct"] for row in judged)
        labelled = many(len(judged), "labelled sample")
        why = f"; {hopeless}" if hopeless else ""
        return f"The first label is right for {right} of {labelled}{why}."
    kept = many(len(first), "sample")
    return f"Outputs of {kept} were kept." if first else "No output was kept."


def _first_by_sample(run: Run, samples: tuple[Sample, ...]) -> dict[int, Prediction]:
    """Return each sample's first answer that says something."""
    found: dict[int, Prediction] = {}
    for each in predictions_of(run, samples):
        if each.features:
            found.setdefault(each.sample, each)
    return found


def _disagreement(run: Run, shown: dict[int, str], best: dict[int, str]) -> list[str]:
    both = shown.keys() & best.keys()
    other = sum(shown[sample] != best[sample] for sample in both)
    labels = many(len(both), "first label")
    return (
        [f"{run.row.run}: {other} of {labels} {verb(other, 'differs', 'differ')}"] if other else []
    )


def _rows(run: Run, found: Prediction) -> list[dict[str, Any]]:
    lines = [(line, each) for each in found.features[:TOP] for line in lines_of([each])]
    return [
        {
            **run_cells(run.row),
            "session": run.row.session,
            "sample": found.sample,
            "name": found.name or f"#{found.sample}",
            "rank": rank,
            "label": line.answer,
            "probability": line.probability,
            "detail": line.detail,
            "is_correct": _is_correct(feature, found),
        }
        for rank, (line, feature) in enumerate(lines[:TOP], start=1)
    ]


def _is_correct(feature: Feature, found: Prediction) -> bool | None:
    """Say whether a class or a text is one that is right; None where nobody knows."""
    if "text" in feature:
        return None if found.texts is None else feature["text"] in found.texts
    if found.kind != "classification":
        return None
    labels, classes = found.truth.get("labels"), found.truth.get("classes")
    if labels and feature.get("label"):
        return str(feature["label"]) in labels
    return feature.get("index") in classes if classes else None


ANALYSIS = Analysis(
    name="outputs",
    title="What the model said",
    source="The last step of the model's output pipeline; each sample's first query.",
    columns=(
        *RUN_COLUMNS,
        text("session", "The session it stands for."),
        whole("sample", "The sample's index in its dataset."),
        text("name", "The sample's name."),
        whole("rank", "1 is the most probable."),
        text("label", "The label; the text, or what else was answered, in words."),
        real("probability", "Its probability.", "1"),
        text("detail", "Where a box is, how large a picture is, which share a class has."),
        truth("is_correct", "Whether the dataset has this label for it; null when it has none."),
    ),
    compute=outputs,
)
