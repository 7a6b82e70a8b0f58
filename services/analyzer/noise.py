"""When a run was too noisy for its figures to stand alone: thresholds, and what to say past them.

| Figure | Threshold | Why |
|---|---|---|
| involuntary switches a CPU-second | 25 | each may cost a slice of 4 ms: 10 % of its time |
| others' share of its cores | 5 % | below, its own threads took the cores from each other |
| major page faults a query | 0.01 | then the p99 is the disk's |
| p99 of issue lateness | 1 ms | then the load was not the one planned |
| time in which power or heat held a GPU's clocks down | 1 % | then its times are of other clocks |
| spread of medians of a run's parts | 10 % | twice the 5 % that a comparison must tell |

Load averages and clocks are conditions without a threshold: they count our own load too.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from mlscope.counts import many
from services.analyzer.frames import Ns, Run
from services.analyzer.own_devices import own_series
from services.analyzer.throttling import REASONS_SERIES, reasons_in, throttled_share

NOISY = "noisy: "
"""How every sentence about noise begins."""
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
    """Return a sentence for every figure of noise that is beyond its threshold."""
    told = run.row.conditions.get("noise")
    noise = told if isinstance(told, Mapping) else {}
    found = (
        _preempted(noise),
        _paged(noise, run.queries.height),
        _late(noise),
        _throttled(run),
        _unsteady(run),
    )
    return [note for note in found if note]


def spread_of(run: Run) -> float | None:
    """Return the coefficient of variation of the median service times of a run's parts.

    Sample standard deviation over mean. Parts are its blocks, or where those are fewer than 3 up
    to 10 stretches of as many queries in a row; parts of fewer than 20 queries do not count, and
    fewer than 3 parts say nothing (None). A service time is the agent's own, else from start to
    end, so that the queueing of an open loop is no noise.
    """
    medians = np.array([np.median(part) for part in _parts(run) if len(part) >= LEAST_IN_A_PART])
    if len(medians) < LEAST_PARTS or medians.mean() <= 0:
        return None
    return float(medians.std(ddof=1) / medians.mean())


def _parts(run: Run) -> list[Ns]:
    served = run.answered.select(
        "block", ns=pl.coalesce("service_ns", pl.col("ended_ns") - pl.col("started_ns"))
    )
    blocks = served.partition_by("block", maintain_order=True)
    if len(blocks) >= LEAST_PARTS:
        return [block["ns"].to_numpy() for block in blocks]
    parts = min(PARTS, max(1, served.height // LEAST_IN_A_PART))
    return np.array_split(served["ns"].to_numpy(), parts)


def _number(noise: Mapping[str, Any], name: str) -> float:
    value = noise.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _preempted(noise: Mapping[str, Any]) -> str:
    """Say that its threads lost their cores, unless it was to each other.

    Below one CPU-second a few switches are a high rate of nothing.
    """
    switches, cpu_s = _number(noise, "involuntary_switches"), _number(noise, "cpu_s")
    if switches <= MOST_SWITCHES_HZ * max(cpu_s, 1.0):
        return ""
    lost = (
        f"lost their cores {switches:.0f} times in {cpu_s:.3g} CPU-seconds "
        f"(over {MOST_SWITCHES_HZ:.0f} a second)"
    )
    share = _others(noise)
    if share is None:
        return f"{NOISY}its threads {lost}, to whom is not known"
    if share <= MOST_OTHERS:
        return ""
    return f"{NOISY}others used {share:.0%} of its cores, and its threads {lost}"


def _others(noise: Mapping[str, Any]) -> float | None:
    """Return others' share of the time of the cores a run could use; None where nobody told."""
    whole_s = _number(noise, "elapsed_s") * _number(noise, "cores")
    if "others_cpu_s" not in noise or whole_s <= 0:
        return None
    return _number(noise, "others_cpu_s") / whole_s


def _paged(noise: Mapping[str, Any], queries: int) -> str:
    faults = _number(noise, "major_faults")
    if faults <= MOST_FAULTS_A_QUERY * queries:
        return ""
    waited, asked = many(round(faults), "time"), many(queries, "query")
    return f"{NOISY}waited for the disk {waited} in {asked} (over 1 %)"


def _late(noise: Mapping[str, Any]) -> str:
    late_ns = _number(noise, "issue_lateness_p99_ns")
    if late_ns <= MOST_LATE_NS:
        return ""
    return f"{NOISY}1 % of queries were issued {late_ns / 1e6:.3g} ms late or later (over 1 ms)"


def _throttled(run: Run) -> str:
    """Say that a GPU was slowed: NVML is sampled from level system on, its session's runs alike."""
    masks = own_series(run, REASONS_SERIES)
    share = throttled_share(masks)
    if share <= MOST_THROTTLED:
        return ""
    by = ", ".join(name for name, _, slows in reasons_in(masks) if slows)
    return f"{NOISY}its GPU's clocks were held down for {share:.0%} of the time, by {by} (over 1 %)"


def _unsteady(run: Run) -> str:
    spread = spread_of(run)
    if spread is None or spread <= MOST_SPREAD:
        return ""
    return f"{NOISY}medians of its parts vary by {spread:.0%} (over {MOST_SPREAD:.0%})"
