"""Rows of what was asked of models at level full, and of energy: the analyzer's own tables read."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.survey.bundles import frames_of
from benchmarks.survey.rows import Row, run_at
from schemas.level import Level
from services.analyzer.analysis import analyze
from services.analyzer.frames.evaluation import Frames, Run
from services.analyzer.tables.energy import ANALYSIS as ENERGY
from services.analyzer.tables.optimal_batch import ANALYSIS as OPTIMAL_BATCH

NUMBERED = tuple(f"A{number}" for number in range(1, 16))
_NUMBER = re.compile(r"A\d+")


def numbered_row(name: str, frames: Frames) -> Row:
    """Return how many rows each of A1 to A15 has of one evaluation, and what they stand on."""
    tables = {table.id: table for table in analyze(frames).tables if _NUMBER.fullmatch(table.id)}
    deep, counted = run_at(frames, Level.SYSTEM), run_at(frames, Level.HARDWARE)
    plain = run_at(frames, Level.MODEL)
    assert plain is not None, "planned"
    row: Row = {"model": name, "batch": plain.row.batch_size}
    row |= {number: len(tables[number].rows) for number in NUMBERED}
    return row | {
        "complete": all(row[number] for number in NUMBERED),
        "traced": ", ".join(run.row.level_name for run in frames.measured),
        "unattributed": None if deep is None else deep.unattributed_share,
        "counted": None if counted is None else _counted(counted),
        "dropped": sum(run.row.dropped_records for run in frames.measured),
    }


def _counted(run: Run) -> int:
    return run.device_work["flops"].count()


def optimal_verdict(paths: Sequence[Path]) -> str:
    """Return what A1 says of a model's evaluations at several batch sizes."""
    return OPTIMAL_BATCH.compute(frames_of(*paths)).verdict


def energy_row(name: str, path: Path) -> Row | None:
    """Return joules an inference and mean power of a bundle's GPU; None where nobody knows them.

    Of the table `energy`: by the counter read around blocks, so of untraced queries.
    """
    frames = frames_of(path)
    rows = [row for row in ENERGY.compute(frames).records() if row["part"] == "gpu"]
    measured = [row for row in rows if row["per_sample"] is not None]
    if not measured:
        return None
    return {"model": name, "queries": frames.measured[0].answered.height, **measured[0]}


def counted_in(frames: Frames) -> Mapping[str, float] | None:
    """Return the counters of a whole call, each kernel's own; None where none were read."""
    run = run_at(frames, Level.HARDWARE)
    if run is None or not _counted(run):
        return None
    counted = run.device_work.drop_nulls("flops")
    return {
        "flops": float(counted["flops"].sum()),
        "read_bytes": float(counted["dram_read_bytes"].sum()),
        "written_bytes": float(counted["dram_write_bytes"].sum()),
        "occupancy": float(np.average(counted["occupancy"], weights=counted["duration_ns"])),
        "counted": counted.height,
        "kernels": counted.height,
    }
