"""Outputs: what the model said of each sample, best five first."""

from typing import Any

from schemas.analysis import Table
from services.analyzer.frames import Frames, Run, Sample, features_of, probability_of
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
    """Return the top labels of each sample, from one run a session; others are compared with it."""
    rows: list[dict[str, Any]] = []
    caveats = list(frames.caveats)
    seen: dict[str, dict[int, str]] = {}
    for run in frames.measured:
        tops = _first_by_sample(run)
        if not tops:
            continue
        best = {sample: str(features[0].get("label", "")) for sample, features in tops.items()}
        if run.row.session in seen:
            caveats += _disagreement(run, seen[run.row.session], best)
            continue
        seen[run.row.session] = best
        if len(tops) > MOST_SAMPLES:
            caveats.append(f"{run.row.run}: {MOST_SAMPLES} of {len(tops)} samples are shown")
        for sample in sorted(tops)[:MOST_SAMPLES]:
            rows += _rows(run, sample, tops[sample], _named(frames.samples, sample))
    return made(ANALYSIS, rows, _verdict(rows), caveats)


def _verdict(rows: list[dict[str, Any]]) -> str:
    first = [row for row in rows if row["rank"] == 1]
    judged = [row for row in first if row["is_correct"] is not None]
    if judged:
        right = sum(row["is_correct"] for row in judged)
        return f"The first label is right for {right} of {len(judged)} labelled samples."
    return f"Outputs of {len(first)} samples were kept." if first else "No output was kept."


def _first_by_sample(run: Run) -> dict[int, list[dict[str, Any]]]:
    """Return the features of each sample's first query that has some."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in run.outputs.sort("query", maintain_order=True).iter_rows(named=True):
        if row["sample"] not in found and (features := features_of(row["features"])):
            found[row["sample"]] = features
    return found


def _disagreement(run: Run, shown: dict[int, str], best: dict[int, str]) -> list[str]:
    both = shown.keys() & best.keys()
    other = sum(shown[sample] != best[sample] for sample in both)
    return [f"{run.row.run}: {other} of {len(both)} first labels differ"] if other else []


def _named(samples: tuple[Sample, ...], index: int) -> Sample:
    return samples[index] if 0 <= index < len(samples) else Sample(f"#{index}")


def _rows(
    run: Run, sample: int, features: list[dict[str, Any]], known: Sample
) -> list[dict[str, Any]]:
    return [
        {
            **run_cells(run.row),
            "session": run.row.session,
            "sample": sample,
            "name": known.name,
            "rank": rank,
            "label": str(feature.get("label", feature.get("index", ""))),
            "probability": probability_of(feature),
            "is_correct": str(feature.get("label", "")) in known.labels if known.labels else None,
        }
        for rank, feature in enumerate(features[:TOP], start=1)
    ]


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
        text("label", "The label."),
        real("probability", "Its probability.", "1"),
        truth("is_correct", "Whether the dataset has this label for it; null when it has none."),
    ),
    compute=outputs,
)
