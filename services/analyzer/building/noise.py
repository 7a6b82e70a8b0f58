"""Noise in a run: thresholds, and the caveats where one is exceeded.

| Figure | Threshold | Why |
|---|---|---|
| involuntary switches per CPU-second | 25 | each may cost a slice of 4 ms: 10% of its time |
| other processes' share of its cores | 5% | below, its own threads displaced each other |
| major page faults per query | 0.01 | then the p99 is a time of the disk |
| p99 of issue lateness | 1 ms | then the load was not the planned one |
| time in which power or heat lowered a GPU's clocks | 1% | then times are of lower clocks |
| spread of the medians of a run's parts | 10% | twice the 5% that a comparison must detect |

Medians of few queries that take unequally long spread without any disturbance: they count where the
parts differ beyond chance.

Load averages and clocks are conditions without a threshold: they count our own load too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from mlscope.counts import many
from mlscope.statistics import differ_beyond_chance
from services.analyzer.building.throttling import REASONS_SERIES, reasons_in, throttled_share
from services.analyzer.frames.evaluation import Ns, Run
from services.analyzer.frames.own_devices import own_series

NOISY = "noisy: "
"""The start of every caveat about noise."""
MOST_SWITCHES_HZ = 25.0
MOST_OTHERS = 0.05
MOST_FAULTS_A_QUERY = 0.01
MOST_LATE_NS = 1_000_000
MOST_THROTTLED = 0.01
MOST_SPREAD = 0.10
PARTS = 10
LEAST_PARTS = 3
LEAST_IN_A_PART = 20


def noise_of(run: Run) -> list[str]:
    """Return a sentence for every figure of noise that exceeds its threshold."""
    conditions = run.row.conditions.get("noise")
    noise = conditions if isinstance(conditions, Mapping) else {}
    notes = [_preemption_note(noise)]
    queries = run.queries.height
    faults = _number(noise, "major_faults")
    if faults > MOST_FAULTS_A_QUERY * queries:
        waits, of_queries = many(round(faults), "time"), many(queries, "query")
        notes.append(f"waited for the disk {waits} in {of_queries} (over 1%)")
    late_ns = _number(noise, "issue_lateness_p99_ns")
    if late_ns > MOST_LATE_NS:
        notes.append(f"1% of queries were issued at least {late_ns / 1e6:.3g} ms late (over 1 ms)")
    # NVML is sampled from level system on; the series hold for the other runs of its session too.
    masks = own_series(run, REASONS_SERIES)
    share = throttled_share(masks)
    if share > MOST_THROTTLED:
        causes = ", ".join(name for name, _, slows in reasons_in(masks) if slows)
        notes.append(
            f"its GPU's clocks were lowered for {share:.0%} of the time, by {causes} (over 1%)"
        )
    parts = parts_of(run)
    spread = spread_of(parts) or 0.0
    if spread > MOST_SPREAD and _differ(parts):
        notes.append(f"medians of its parts vary by {spread:.0%} (over {MOST_SPREAD:.0%})")
    return [f"{NOISY}{note}" for note in notes if note]


def parts_of(run: Run) -> list[Ns]:
    """Return the service times (ns) of the queries of each part of a run.

    The parts are the run's blocks; with fewer than 3 blocks, up to 10 stretches of equally many
    consecutive queries. Parts of fewer than 20 queries do not count. A service time is the agent's
    own, else from start to end, so queueing in an open loop is not noise.
    """
    served = run.answered.select(
        "block", ns=pl.coalesce("service_ns", pl.col("ended_ns") - pl.col("started_ns"))
    )
    blocks = served.partition_by("block", maintain_order=True)
    if len(blocks) >= LEAST_PARTS:
        parts: list[Ns] = [block["ns"].to_numpy() for block in blocks]
    else:
        count = min(PARTS, max(1, served.height // LEAST_IN_A_PART))
        parts = np.array_split(served["ns"].to_numpy(), count)
    return [part for part in parts if len(part) >= LEAST_IN_A_PART]


def spread_of(parts: Sequence[Ns]) -> float | None:
    """Return the coefficient of variation of the medians of `parts`, None of fewer than 3.

    It is the sample standard deviation over the mean (0 or more).
    """
    medians = np.array([np.median(part) for part in parts])
    if len(medians) < LEAST_PARTS or medians.mean() <= 0:
        return None
    return float(medians.std(ddof=1) / medians.mean())


def _differ(parts: Sequence[Ns]) -> bool:
    """Tell whether some `parts` are slower than others by more than chance."""
    numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return differ_beyond_chance(np.concatenate(parts), numbers)


def _number(noise: Mapping[str, Any], name: str) -> float:
    value = noise.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _preemption_note(noise: Mapping[str, Any]) -> str:
    """Return the note that its threads were preempted, '' where only by each other.

    A few switches within less than one CPU-second are a high rate of nothing.
    """
    switches, cpu_s = _number(noise, "involuntary_switches"), _number(noise, "cpu_s")
    if switches <= MOST_SWITCHES_HZ * max(cpu_s, 1.0):
        return ""
    displaced = (
        f"were preempted {switches:.0f} times in {cpu_s:.3g} CPU-seconds "
        f"(the limit is {MOST_SWITCHES_HZ:.0f} a second)"
    )
    available_s = _number(noise, "elapsed_s") * _number(noise, "cores")
    if "others_cpu_s" not in noise or available_s <= 0:
        return f"its threads {displaced}; by which processes is unknown"
    share = _number(noise, "others_cpu_s") / available_s
    if share <= MOST_OTHERS:
        return ""
    return f"other processes used {share:.0%} of its cores, and its threads {displaced}"
