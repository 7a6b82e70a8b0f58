"""Failures: why queries, or samples in them, failed."""

from collections.abc import Iterator, Sequence
from typing import Any

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.frames import ANSWERED, LOST, Frames, Run, Sample
from services.analyzer.reasons import reasons_of
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    made,
    run_cells,
    text,
    whole,
)

MOST_REASONS = 100
_STATUS = {0: "in part", 1: "failed", 2: "lost"}


def failures(frames: Frames) -> Table:
    """Return the reasons of each run's failed queries, those that came first before others."""
    rows: list[dict[str, Any]] = []
    caveats = list(frames.caveats)
    for run in frames.measured:
        found = list(_rows(run, frames.samples))
        if len(found) > MOST_REASONS:
            caveats.append(f"{run.row.run}: {MOST_REASONS} of {len(found)} reasons are shown")
        told = sum(run.failures.filter(run.failures["status"] != ANSWERED)["queries"])
        if told < run.failed:
            of = many(run.failed, "query")
            caveats.append(f"{run.row.run}: reasons were read of {told} of {of}")
        rows += found[:MOST_REASONS]
    return made(ANALYSIS, rows, _verdict(frames, rows), caveats)


def first_reason(run: Run, samples: Sequence[Sample]) -> str:
    """Return why a run's first query failed, '' when none did."""
    rows = (row for row in _rows(run, samples) if row["status"] != _STATUS[ANSWERED])
    row = next(rows, None)
    return "" if row is None else _told(row)


def _verdict(frames: Frames, rows: list[dict[str, Any]]) -> str:
    failed = sum(run.failed for run in frames.measured)
    queries = sum(run.queries.height for run in frames.measured)
    samples = sum(run.failed_samples for run in frames.measured)
    if not failed and not samples:
        return "No query failed."
    said = f"{failed} of {many(queries, 'query')} failed"
    said += f", and {many(samples, 'sample')} of others" if samples else ""
    return f"{said}, first: {_told(rows[0]).removesuffix('.')}." if rows else f"{said}."


def _told(row: dict[str, Any]) -> str:
    if row["sample"] is None:
        return str(row["reason"])
    path = f" ({row['path']})" if row["path"] else ""
    return f"sample {row['sample']}{path}: {row['reason']}"


def _rows(run: Run, samples: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    for group in run.failures.iter_rows(named=True):
        for sample, reason in reasons_of(group["error"]):
            known = samples[sample] if sample is not None and sample < len(samples) else Sample("")
            yield {
                **run_cells(run.row),
                "agent": run.row.agent,
                "status": _STATUS.get(group["status"], "failed"),
                "sample": sample,
                "path": known.path or known.name,
                "reason": reason or ("no answer came" if group["status"] == LOST else "unknown"),
                "queries": group["queries"],
                "first_queries": group["first"],
            }


ANALYSIS = Analysis(
    name="failures",
    title="Why queries failed",
    source="The collector's table `query`: equal errors of a run together; paths by the dataset.",
    columns=(
        *RUN_COLUMNS,
        text("agent", "Where it ran."),
        text("status", "failed; lost: no answer came; in part: its other samples are answered."),
        whole("sample", "The sample's index in its dataset; null when it was not one's fault."),
        text("path", "The sample's file, as the dataset's manifest has it."),
        text("reason", "Why, in words."),
        whole("queries", "How many queries failed so."),
        text("first_queries", "The first of them, by number."),
    ),
    compute=failures,
)
