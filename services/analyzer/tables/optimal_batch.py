"""Model table (A1): latency and throughput by batch size, and the optimal batch size.

Double the batch until that no longer raises throughput by over 5 %.
"""

import json
from collections import defaultdict
from typing import Any

from mlscope.client.quantities import number
from mlscope.load.scenarios import COLD
from mlscope.statistics import OptimalBatch, Throughput
from mlscope.statistics import optimal_batch as optimum
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.charts import lines
from services.analyzer.tables.stacks import HARDWARE_LEVEL, SERIALISED
from services.analyzer.tables.table import (
    Analysis,
    doubts,
    estimate,
    made,
    real,
    text,
    trimmed_cells,
    truth,
    whole,
    with_interval,
)
from services.analyzer.tables.throughput import samples_rate

GAIN = 0.05
"""The gain that a doubling must bring, and so how well rates must be known."""

MOST_APART = 0.05
"""How far batch size over latency may be from throughput where one query follows another."""

_Group = tuple[str, str, str]
"""Agent, scenario and its parameters as JSON: batch sizes compare within these alone."""


def optimal_batch(frames: Frames) -> Table:
    """Return closed-loop runs by agent and scenario: batch size against throughput (A1)."""
    groups: dict[_Group, list[Run]] = defaultdict(list)
    for run in frames.measured:
        if not run.is_open_loop and run.answered.height and not _is_other(run):
            groups[_group_of(run)].append(run)
    rows: list[dict[str, Any]] = []
    verdicts: list[str] = []
    caveats = doubts(frames)
    for group, measured in groups.items():
        runs = _shallowest(measured)
        deeper = {run.row.batch_size for run in measured} - runs.keys()
        caveats += [f"batch {size}: no whole run at the others' level" for size in sorted(deeper)]
        known = {size: samples_rate(run) for size, run in sorted(runs.items())}
        rates = {size: rate for size, rate in known.items() if rate and rate.samples}
        choice = None
        if len(rates) > 1:
            choice = optimum({size: rate.rate_hz for size, rate in rates.items()})
            caveats += _noise(group, rates)
            verdicts.append(_verdict(group, choice, rates))
        mine = [_cells(group, runs[size], rates, choice) for size in rates]
        caveats += _disagreement(mine)
        rows += mine
    verdict = " ".join(verdicts) or "Fewer than two batch sizes were measured in a closed loop."
    return made(ANALYSIS, rows, verdict, caveats)


def _is_other(run: Run) -> bool:
    """Whether a run is an opening, a replay or serialised: its times are no plain predictions'."""
    row = run.row
    return row.scenario == COLD or row.level == HARDWARE_LEVEL or row.variant == SERIALISED


def _group_of(run: Run) -> _Group:
    row = run.row
    return row.agent, row.scenario, json.dumps(dict(row.parameters), sort_keys=True, default=str)


def _shallowest(runs: list[Run]) -> dict[int, Run]:
    """Return by batch size the whole runs of the shallowest level: a trace costs time."""
    runs = [run for run in runs if run.row.end == "completed"] or runs
    level = min(run.row.level for run in runs)
    return {run.row.batch_size: run for run in reversed(runs) if run.row.level == level}


def _noise(group: _Group, rates: dict[int, Throughput]) -> list[str]:
    """Say when rates are known less well than the rule's 5 % asks."""
    reaches = [
        (rate.interval.high - rate.interval.low) / 2 / rate.rate_hz
        for rate in rates.values()
        if rate.interval.high is not None and rate.interval.low is not None
    ]
    if len(reaches) < len(rates):
        return [f"{group[0]} ({group[1]}): not every rate has an interval: too few queries"]
    if max(reaches) <= GAIN:
        return []
    return [
        f"{group[0]} ({group[1]}): rates are known to {max(reaches):.0%}, the rule asks for 5 %"
    ]


def _verdict(group: _Group, choice: OptimalBatch, rates: dict[int, Throughput]) -> str:
    agent, scenario, _ = group
    best = "The optimal batch size" if choice.settled else "The best batch size measured"
    most = max(rates, key=lambda size: rates[size].rate_hz)
    told = f"; most samples a second, {number(rates[most].rate_hz)}, at {most}"
    further = told if most != choice.batch_size else ""
    return f"{best} on {agent} ({scenario}) is {choice.batch_size}: {choice.reason}{further}."


def _disagreement(rows: list[dict[str, Any]]) -> list[str]:
    """Say where latency and throughput contradict each other: time went elsewhere, or overlaps."""
    return [
        f"{row['run']}: batch size over latency is {number(row['rate_by_latency'])} samples/s, "
        f"throughput {number(row['samples_per_s'])}: queries overlapped, or time lay between them"
        for row in rows
        if abs(row["rate_by_latency"] / row["samples_per_s"] - 1.0) > MOST_APART
    ]


def _cells(
    group: _Group, run: Run, rates: dict[int, Throughput], choice: OptimalBatch | None
) -> dict[str, Any]:
    size = run.row.batch_size
    latency = trimmed_cells("latency", run.latency_ns)
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
        **latency,
        "latency_per_sample": latency["latency"] / size,
        "rate_by_latency": size / (latency["latency"] * 1e-9),
        "is_optimal": size == choice.batch_size if choice else None,
    }


ANALYSIS = Analysis(
    name="optimal_batch",
    id="A1",
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
        *estimate("latency", "Trimmed mean latency of a query."),
        real("latency_per_sample", "Trimmed mean latency over the batch size."),
        real("rate_by_latency", "Batch size over latency: to compare with throughput.", "1/s"),
        truth("is_optimal", "Whether the rule chooses it; null where there is no choice."),
    ),
    compute=optimal_batch,
    chart=lines(
        ("batch_size", "Batch size"),
        ("samples_per_s", "Samples a second"),
        *("agent", "latency", "is_optimal"),
    ),
)
