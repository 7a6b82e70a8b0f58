"""Optimal batch size: double the batch until that no longer raises throughput by over 5 %."""

from collections import defaultdict
from typing import Any

from mlscope.statistics import OptimalBatch, Throughput, trimmed_mean
from mlscope.statistics import optimal_batch as optimum
from mlscope.statistics import throughput as rate_of
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run, contiguous_ends_ns
from services.analyzer.tables.table import (
    Analysis,
    estimate,
    made,
    real,
    text,
    truth,
    whole,
    with_interval,
)

_Group = tuple[str, str]


def optimal_batch(frames: Frames) -> Table:
    """Return closed-loop runs by agent and scenario: batch size against throughput (A1)."""
    groups: dict[_Group, dict[int, Run]] = defaultdict(dict)
    for run in frames.measured:
        if run.is_open_loop or run.answered.height == 0:
            continue
        sizes = groups[(run.row.agent, run.row.scenario)]
        known = sizes.get(run.row.batch_size)
        # A trace costs time: the shallowest run of a size is the one that tells.
        if known is None or run.row.level < known.row.level:
            sizes[run.row.batch_size] = run
    rows: list[dict[str, Any]] = []
    verdicts: list[str] = []
    for group, runs in groups.items():
        rates = {size: rate for size, run in sorted(runs.items()) if (rate := _rate_of(run))}
        if len(rates) > 1:
            choice = optimum({size: rate.rate_hz for size, rate in rates.items()})
            rows += [_cells(group, runs[size], rates, choice) for size in rates]
            verdicts.append(_verdict(group, choice))
    verdict = " ".join(verdicts) or "Fewer than two batch sizes were measured in a closed loop."
    return made(ANALYSIS, rows, verdict, frames.caveats)


def _rate_of(run: Run) -> Throughput | None:
    ends = contiguous_ends_ns(run.answered)
    return rate_of(0, ends, run.answered["size"].to_numpy()) if ends.max() > 0 else None


def _verdict(group: _Group, choice: OptimalBatch) -> str:
    agent, scenario = group
    best = "The optimal batch size" if choice.settled else "The best batch size measured"
    return f"{best} on {agent} ({scenario}) is {choice.batch_size}: {choice.reason}."


def _cells(
    group: _Group, run: Run, rates: dict[int, Throughput], choice: OptimalBatch
) -> dict[str, Any]:
    size = run.row.batch_size
    rate, half = rates[size], rates.get(size // 2) if size % 2 == 0 else None
    return {
        "agent": group[0],
        "scenario": group[1],
        "batch_size": size,
        "run": run.row.run,
        "level": run.row.level_name,
        "queries": run.answered.height,
        **with_interval("samples_per_s", rate.rate_hz, rate.interval),
        "gain": rate.rate_hz / half.rate_hz - 1 if half else None,
        "latency_per_sample": trimmed_mean(run.latency_ns) / size,
        "is_optimal": size == choice.batch_size,
    }


ANALYSIS = Analysis(
    name="optimal_batch",
    title="Throughput by batch size (A1)",
    source="XSP III-D: doubling must raise throughput by more than 5 %; MLModelScope's A1 table.",
    columns=(
        text("agent", "Where it ran."),
        text("scenario", "How its queries arrived."),
        whole("batch_size", "Samples in a query."),
        text("run", "The run: the shallowest of its batch size."),
        text("level", "Its trace level."),
        whole("queries", "Queries answered."),
        *estimate("samples_per_s", "Samples answered a second.", "1/s"),
        real("gain", "Gain in throughput over half the batch size.", "1"),
        real("latency_per_sample", "Trimmed mean latency over the batch size."),
        truth("is_optimal", "Whether the rule chooses it."),
    ),
    compute=optimal_batch,
)
