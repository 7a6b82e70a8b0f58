"""Model table (A1): latency and throughput by batch size, and the optimal batch size.

The batch size is doubled until that no longer raises throughput by more than 5%.
"""

from collections import defaultdict
from typing import Any

from mlscope.load.scenarios import COLD
from mlscope.quantities import estimated, number
from mlscope.statistics import Estimate, OptimalBatch, Throughput, best, ratio_interval
from mlscope.statistics import optimal_batch as optimum
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, curves
from services.analyzer.building.margins import UNKNOWN, Margin
from services.analyzer.building.rates import samples_rate
from services.analyzer.building.stacks import HARDWARE_LEVEL, SERIALISED
from services.analyzer.building.table import (
    Analysis,
    bool_column,
    estimate_columns,
    float_column,
    int_column,
    make_table,
    run_warnings,
    text_column,
    trimmed_cells,
    with_interval,
)
from services.analyzer.frames.evaluation import Frames, Run

GAIN = 0.05
"""The gain that a doubling must bring, and the precision that rates must have for that."""

MOST_APART = 0.05
"""The share by which batch size / latency may differ from throughput in a closed loop."""

_Group = tuple[str, str, str]
"""Agent, scenario and its parameters as JSON: batch sizes only compare within these."""


def optimal_batch(frames: Frames) -> Table:
    """Return closed-loop runs by agent and scenario: batch size against throughput (A1)."""
    rows: list[dict[str, Any]] = []
    verdicts: list[str] = []
    caveats = run_warnings(frames)
    for group, measured in closed_loops(frames).items():
        completed = [run for run in measured if run.row.end == "completed"] or measured
        level = min(run.row.level for run in completed)
        runs = {r.row.batch_size: r for r in reversed(completed) if r.row.level == level}
        deeper = {run.row.batch_size for run in measured} - runs.keys()
        caveats += [
            f"batch {size}: no completed run at the level of the others" for size in sorted(deeper)
        ]
        rates = {
            size: rate
            for size, run in sorted(runs.items())
            if (rate := samples_rate(run)) and rate.samples
        }
        choice = None
        if len(rates) > 1:
            choice = optimum({size: _estimate_of(rate) for size, rate in rates.items()})
            caveats += _precision_notes(group, rates)
            verdicts.append(_verdict(group, choice, rates))
        of_group = _batch_rows(runs, rates, choice)
        caveats += [
            f"{row['run']}: batch size / latency is {number(row['rate_by_latency'])} samples/s, "
            f"but throughput {number(row['samples_per_s'])}: queries overlapped, or there were "
            "pauses"
            for row in of_group
            if abs(row["rate_by_latency"] / row["samples_per_s"] - 1.0) > MOST_APART
        ]
        rows += of_group
    verdict = " ".join(verdicts) or "Fewer than two batch sizes were measured in a closed loop."
    return make_table(ANALYSIS, rows, verdict, caveats)


def closed_loops(frames: Frames) -> dict[_Group, list[Run]]:
    """Return the runs whose batch sizes compare, by group: closed loops of plain predictions.

    Times of cold starts, replays and serialised runs are not those of plain predictions.
    """
    groups: dict[_Group, list[Run]] = defaultdict(list)
    for run in frames.measured:
        row = run.row
        if row.scenario == COLD or row.level == HARDWARE_LEVEL or row.variant == SERIALISED:
            continue
        if run.answered.height and not run.is_open_loop:
            groups[row.agent, row.scenario, row.parameters_text].append(run)
    return groups


def _precision_notes(group: _Group, rates: dict[int, Throughput]) -> list[str]:
    """Return a caveat where rates are less precise than the 5% of the rule."""
    half_widths = [
        (rate.interval.high - rate.interval.low) / 2 / rate.rate_hz
        for rate in rates.values()
        if rate.interval.high is not None and rate.interval.low is not None
    ]
    if len(half_widths) < len(rates):
        return [f"{group[0]} ({group[1]}): not every rate has an interval: too few queries"]
    if max(half_widths) <= GAIN:
        return []
    precision = f"{max(half_widths):.0%}"
    return [f"{group[0]} ({group[1]}): rates are precise to {precision}, the rule needs 5%"]


def _verdict(group: _Group, choice: OptimalBatch, rates: dict[int, Throughput]) -> str:
    agent, scenario, _ = group
    optimal = "The optimal batch size" if choice.settled else "The best measured batch size"
    sizes = list(rates)
    fastest = best([_estimate_of(rate) for rate in rates.values()])
    if not choice.is_beyond_doubt:
        candidates = ", ".join(map(str, choice.candidates[:-1]))
        return (
            f"{optimal} on {agent} ({scenario}) is {candidates} or {choice.candidates[-1]}: the "
            f"intervals do not tell which ({choice.batch_size} by the estimates: {choice.reason})."
        )
    size = sizes[fastest.place]
    rate = rates[size]
    rate_text = estimated(rate.rate_hz, rate.interval.low, rate.interval.high, "samples/s")
    highest = f"; the highest throughput, {rate_text}, is at {size}"
    is_said = size != choice.batch_size and fastest.is_beyond_doubt
    further = highest if is_said else ""
    return f"{optimal} on {agent} ({scenario}) is {choice.batch_size}: {choice.reason}{further}."


def _estimate_of(rate: Throughput) -> Estimate:
    return Estimate(rate.rate_hz, rate.interval.low, rate.interval.high)


def _batch_rows(
    runs: dict[int, Run], rates: dict[int, Throughput], choice: OptimalBatch | None
) -> list[dict[str, Any]]:
    """Return a row for each batch size with a rate.

    `runs` and `rates` are by batch size; `choice` is the optimal one, None where too few compare.
    """
    rows = []
    for size, rate in rates.items():
        run = runs[size]
        latency = trimmed_cells("latency", run.latency_ns, run.answered_blocks)
        half = rates.get(size // 2) if size % 2 == 0 else None
        is_optimal = None
        if choice is not None and (choice.is_beyond_doubt or size not in choice.candidates):
            is_optimal = size == choice.batch_size
        cells = {
            "agent": run.row.agent,
            "scenario": run.row.scenario,
            "batch_size": size,
            "run": run.row.run,
            "level": run.row.level_name,
            "queries": run.answered.height,
            **with_interval("samples_per_s", rate.rate_hz, rate.interval),
            **_gain(rate, half).cells("gain"),
            **latency,
            "latency_per_sample": latency["latency"] / size,
            "rate_by_latency": size / (latency["latency"] * 1e-9),
            "is_optimal": is_optimal,
        }
        rows.append(cells)
    return rows


def _gain(rate: Throughput, half: Throughput | None) -> Margin:
    """Return the relative gain of a rate over that of half its batch size."""
    if half is None:
        return UNKNOWN
    estimate, base = _estimate_of(rate), _estimate_of(half)
    interval = ratio_interval(estimate, base)
    ends = (None if end is None else end - 1.0 for end in (interval.low, interval.high))
    return Margin(estimate.value / base.value - 1.0, *ends)


ANALYSIS = Analysis(
    name="optimal_batch",
    id="A1",
    title="Throughput by batch size (A1)",
    source=(
        "XSP III-D: doubling must raise throughput by more than 5%; MLModelScope's A1 table. The "
        "interval of a gain combines those of both rates, by logarithms (Zou and Donner 2008); a "
        "size is optimal only where these intervals leave no other."
    ),
    columns=(
        text_column("agent", "The agent that ran it."),
        text_column("scenario", "The scenario: how queries arrived."),
        int_column("batch_size", "Samples per query."),
        text_column("run", "The run with the shallowest level of its batch size."),
        text_column("level", "Trace level of the run."),
        int_column("queries", "Queries answered."),
        *estimate_columns("samples_per_s", "Samples answered per second.", "1/s"),
        *estimate_columns("gain", "Relative gain in throughput over half the batch size.", "1"),
        *estimate_columns("latency", "Trimmed mean latency of queries."),
        float_column("latency_per_sample", "Trimmed mean latency divided by the batch size."),
        float_column("rate_by_latency", "Batch size / latency, to compare with throughput.", "1/s"),
        bool_column(
            "is_optimal",
            "Whether the rule chooses it; null without a choice, or where its interval leaves it "
            "open.",
        ),
    ),
    compute=optimal_batch,
    chart=curves(
        ("batch_size", "Batch size"),
        Axis("samples_per_s", "Samples per second"),
        "agent",
        "latency",
        best="is_optimal",
        detail="scenario",
        has_interval=True,
    ),
)
