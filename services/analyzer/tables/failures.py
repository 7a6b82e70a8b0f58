"""Failures: why queries, or samples in them, failed."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, ranked
from services.analyzer.building.reasons import reasons_of
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    int_column,
    make_table,
    run_cells,
    text_column,
)
from services.analyzer.frames.evaluation import ANSWERED, LOST, Frames, Run, Sample

MOST_REASONS = 100
_FILE_AT_END = re.compile(r" \(((?:[^()]|\([^()]*\))+\.\w{1,8})\)$")
_STATUS = {0: "in part", 1: "failed", 2: "lost"}


def failures(frames: Frames) -> Table:
    """Return the reasons why queries and samples of each run failed, first queries first."""
    rows: list[dict[str, Any]] = []
    caveats = list(frames.caveats)
    for run in frames.measured:
        reasons = list(_rows(run, frames.samples))
        if len(reasons) > MOST_REASONS:
            caveats.append(f"{run.row.run}: {MOST_REASONS} of {len(reasons)} reasons are shown")
        explained = sum(run.failures.filter(run.failures["status"] != ANSWERED)["queries"])
        if explained < run.failed:
            of_failed = many(run.failed, "failed query")
            caveats.append(f"{run.row.run}: reasons were read for {explained} of {of_failed}")
        rows += reasons[:MOST_REASONS]
    failed = sum(run.failed for run in frames.measured)
    queries = sum(run.queries.height for run in frames.measured)
    samples = sum(run.failed_samples for run in frames.measured)
    verdict = "No query failed."
    if failed or samples:
        verdict = f"{failed} of {many(queries, 'query')} failed"
        verdict += f", and {many(samples, 'sample')} of other queries" if samples else ""
        verdict += f", first: {_reason_text(rows[0]).removesuffix('.')}." if rows else "."
    return make_table(ANALYSIS, rows, verdict, caveats)


def first_reason(run: Run, samples: Sequence[Sample]) -> str:
    """Return the reason of a run's first failed query, '' without one."""
    rows = (row for row in _rows(run, samples) if row["status"] != _STATUS[ANSWERED])
    row = next(rows, None)
    return "" if row is None else _reason_text(row)


def _reason_text(row: dict[str, Any]) -> str:
    if row["sample"] is None:
        return str(row["reason"])
    is_new = row["path"] and f"({row['path']})" not in row["reason"]
    path = f" ({row['path']})" if is_new else ""
    return f"sample {row['sample']}{path}: {row['reason']}"


def _rows(run: Run, samples: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    listed = dict[int | None, Sample](enumerate(samples))
    for group in run.failures.iter_rows(named=True):
        for sample, reason in reasons_of(group["error"]):
            named = listed.get(sample, Sample(""))
            # The plan does not list the files of a source: the agent names them in the reason.
            in_reason = () if samples or sample is None else _FILE_AT_END.findall(reason)
            yield {
                **run_cells(run.row),
                "agent": run.row.agent,
                "status": _STATUS.get(group["status"], "failed"),
                "sample": sample,
                "path": named.path or named.name or "".join(in_reason),
                "reason": reason or ("no answer came" if group["status"] == LOST else "unknown"),
                "queries": group["queries"],
                "first_queries": group["first"],
            }


ANALYSIS = Analysis(
    name="failures",
    title="Why queries failed",
    source="The collector's table `query`, equal errors of a run together; paths of the dataset.",
    columns=(
        *RUN_COLUMNS,
        text_column("agent", "The agent that ran it."),
        text_column(
            "status", "failed; lost: no answer came; in part: other samples were answered."
        ),
        int_column("sample", "Index of the failed sample in its dataset; null for whole queries."),
        text_column("path", "The sample's file or name in the dataset."),
        text_column("reason", "Reason of the failure."),
        int_column("queries", "Queries that failed for this reason."),
        text_column("first_queries", "Numbers of the first of them."),
    ),
    compute=failures,
    chart=ranked(
        ("reason", "Reason"), Axis("queries", "Failed queries"), "status", has_interval=False
    ),
)
