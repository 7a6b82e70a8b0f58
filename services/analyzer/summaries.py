"""A row for each load of an evaluation: its main figures with model, system, accuracy, size. Pure.

Rows of many evaluations are explored together, without reading any evaluation's tables.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mlscope.manifests.figures import figures_of
from schemas.analysis import Estimate, Table
from schemas.manifest import ModelManifest
from services.analyzer.frames.evaluation import Run
from services.analyzer.headlines import batch_headlines_of

Cells = dict[str, Any]


def summaries_of(
    runs: Sequence[Run], tables: Sequence[Table], model: ModelManifest | None
) -> tuple[Cells, ...]:
    """Return a row of the table `headline` for each load at each batch size.

    `runs` are those of the evaluation and `tables` its analyses; `model` is the planned manifest,
    which quotes an accuracy and a size.
    """
    by_name = {run.row.run: run for run in runs}
    accuracies = _accuracies(tables)
    published = _published(model)
    sizes = {run.row.run: run.row.conditions.get("model_size_bytes") for run in runs}
    return tuple(
        {
            **published,
            **_place(by_name[headline.run], model),
            "scenario": headline.scenario,
            "parameters": headline.parameters,
            "batch_size": headline.batch_size,
            "statistic": headline.statistic,
            "offered_per_s": headline.offered_per_s,
            **_estimate_cells("latency_ns", headline.latency_ns),
            **_estimate_cells("samples_per_s", headline.samples_per_s),
            **accuracies.get((headline.agent, headline.batch_size), _NO_ACCURACY),
            "size_bytes": sizes[headline.run] or published["size_bytes"],
        }
        for headline in batch_headlines_of(runs, tables)
    )


def _place(run: Run, model: ModelManifest | None) -> Cells:
    row = run.row
    return {
        "run": row.run,
        "task": model.task if model else "",
        "model": row.model,
        "model_version": row.model_version,
        "framework": row.framework,
        "framework_version": row.framework_version,
        "device": row.device,
        "accelerator": str(row.conditions.get("accelerator") or ""),
        "precision": str(row.conditions.get("precision") or ""),
        "agent": row.agent,
        "dataset": row.dataset,
        "load_ns": row.conditions.get("load_ns") or None,
        "first_run_ns": row.conditions.get("first_run_ns") or None,
    }


def _estimate_cells(name: str, estimate: Estimate | None) -> Cells:
    value = estimate or Estimate(value=0.0)
    ends = (None, None, None) if estimate is None else (value.value, value.low, value.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


_NO_ACCURACY: Mapping[str, Any] = {
    "metric": "",
    "accuracy": None,
    "accuracy_low": None,
    "accuracy_high": None,
    "judged": None,
}


def _accuracies(tables: Sequence[Table]) -> dict[tuple[str, int], Cells]:
    """Return the first metric of each agent and batch size; later openings agree with it."""
    accuracies: dict[tuple[str, int], Cells] = {}
    for table in (table for table in tables if table.name == "accuracy"):
        for row in table.records():
            if row["value"] is None:
                continue
            ends = {f"accuracy{end}": row[f"value{end}"] for end in ("", "_low", "_high")}
            cells = {"metric": row["metric"], "judged": row["judged"], **ends}
            accuracies.setdefault((row["agent"], row["batch_size"]), cells)
    return accuracies


def _published(model: ModelManifest | None) -> Cells:
    figures = figures_of(model) if model else None
    accuracy = figures.accuracy if figures else None
    return {
        "published_metric": figures.metric if figures else "",
        "published_dataset": figures.measured_on if figures else "",
        # Sources quote percent; measured shares are from 0 to 1.
        "published_accuracy": accuracy / 100 if accuracy is not None and accuracy > 1 else accuracy,
        "size_bytes": figures.size_bytes if figures else None,
    }
