"""Differences between a reference log and a repeated run: machine, versions, numbers, answers.

Runs are paired by scenario, level and batch size, in their order. Performance is compared by its
ratio and by the intervals at 95%: where they overlap, these runs show no difference. Pure.
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from mlscope.quantities import shown
from mlscope.reproducing.answers import compare_answers, values_by_path
from mlscope.reproducing.difference import Difference
from schemas.reference import ReferenceLog, ReferenceMachine, ReferenceRun

_CONDITIONS = (
    "framework",
    "device",
    "provider",
    "precision",
    "threads",
    "options",
    "seed",
    "parameters",
    "dataset",
    "model",
    "checksums",
    "mlscope_version",
    "python_version",
)
_FIGURES = (
    ("latency", "median"),
    ("latency", "p90"),
    ("latency", "p99"),
    ("latency", "service_median"),
    ("throughput", "samples_per_s"),
)
"""Compared figures: table and column."""
_UNITS: Mapping[str, str] = MappingProxyType({"latency": "ns", "throughput": "1/s"})


def differences(before: ReferenceLog, now: ReferenceLog) -> list[Difference]:
    """Return the differing machines and conditions, and every compared figure and answer."""
    pairs = list(paired(before, now))
    comparisons = list(machine_differences(before, now))
    for old, new in pairs:
        values = [
            *((name, old.conditions.get(name), new.conditions.get(name)) for name in _CONDITIONS),
            ("state", old.state, new.state),
        ]
        comparisons += (
            Difference("conditions", old.run, name, str(value), str(new_value))
            for name, value, new_value in values
            if value != new_value
        )
    if len(pairs) < len(before.runs):
        counts = str(len(before.runs)), str(len(pairs))
        comparisons.append(Difference("runs", "", "paired", *counts))
    for old, new in pairs:
        comparisons += performance_comparisons(old, new)
    comparisons += accuracy_comparisons(before, now)
    comparisons += (compare_answers(before, now, old, new) for old, new in pairs)
    return comparisons


def paired(before: ReferenceLog, now: ReferenceLog) -> Iterator[tuple[ReferenceRun, ReferenceRun]]:
    """Yield each run with the same run of the other log, where there is one."""
    unpaired = list(now.runs)
    for old in before.runs:
        load = (old.scenario, old.level, old.batch_size)
        same = (run for run in unpaired if (run.scenario, run.level, run.batch_size) == load)
        new = next(same, None)
        if new is not None:
            unpaired.remove(new)
            yield old, new


def machine_differences(before: ReferenceLog, now: ReferenceLog) -> Iterator[Difference]:
    """Yield the differences of machines, which are paired in their order."""
    counts = len(before.machines), len(now.machines)
    if counts[0] != counts[1]:
        yield Difference("hardware", "", "machines", str(counts[0]), str(counts[1]))
    for old, new in zip_longest(before.machines, now.machines):
        if old is None or new is None:
            agents = (old.agent, "none") if new is None else ("none", new.agent)
            yield Difference("hardware", " / ".join(agents), "machine", *agents)
            continue
        for aspect in ("hardware", "software"):
            yield from _manifest_differences(old, new, aspect)


def _manifest_differences(
    old: ReferenceMachine, new: ReferenceMachine, aspect: str
) -> Iterator[Difference]:
    """Yield where two machines' manifests of one `aspect`, hardware or software, differ."""
    old_values, new_values = _manifest_values(old, aspect), _manifest_values(new, aspect)
    for name in dict.fromkeys((*old_values, *new_values)):
        if old_values.get(name) != new_values.get(name):
            values = (str(old_values.get(name, "")), str(new_values.get(name, "")))
            yield Difference(aspect, f"{old.agent} / {new.agent}", name, *values)


def _manifest_values(machine: ReferenceMachine, aspect: str) -> dict[str, Any]:
    """Return the values of a machine's hardware or software manifest by path."""
    manifest = getattr(machine, aspect)
    return values_by_path(manifest.model_dump(mode="json", exclude={"kind", "name", "version"}))


def performance_comparisons(old: ReferenceRun, new: ReferenceRun) -> Iterator[Difference]:
    """Yield each figure of both runs with their ratio; equal if the intervals overlap."""
    for table, name in _FIGURES:
        old_row, new_row = getattr(old, table), getattr(new, table)
        before, now = old_row.get(name), new_row.get(name)
        if before is None or now is None or not before:
            continue
        first, second = _interval(old_row, name), _interval(new_row, name)
        note = f"ratio {now / before:.3f}"
        is_same = False
        if first and second:
            is_same = first[0] <= second[1] and second[0] <= first[1]
            note += ", the intervals overlap" if is_same else ", the intervals do not overlap"
        unit = _UNITS[table]
        readable = _figure_with_unit(before, first, unit), _figure_with_unit(now, second, unit)
        yield Difference(
            "performance",
            old.run,
            f"{table} {name}",
            _plain_figure(before, first),
            _plain_figure(now, second),
            note,
            is_same,
            with_units=readable,
        )


def accuracy_comparisons(before: ReferenceLog, now: ReferenceLog) -> Iterator[Difference]:
    """Compare each metric of each batch size, whatever the sessions are called."""
    rows = {(row.get("batch_size"), row.get("metric")): row for row in now.accuracy}
    for old in before.accuracy:
        new = rows.get((old.get("batch_size"), old.get("metric")))
        values = _accuracy_text(old), "none" if new is None else _accuracy_text(new)
        is_same = values[0] == values[1]
        session, metric = str(old.get("session", "")), str(old.get("metric", ""))
        note = "" if is_same else "differs"
        yield Difference("accuracy", session, metric, *values, note, is_same)


def _accuracy_text(row: Mapping[str, Any]) -> str:
    """Return a metric's value with its interval, its hits and its number of samples."""
    value = row.get("value")
    text = "none" if value is None else _plain_figure(value, _interval(row, "value"))
    hits, n = row.get("hits"), row.get("n")
    return text if hits is None else f"{text}, {hits} of {n}"


def _interval(row: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return None if low is None or high is None else (float(low), float(high))


def _plain_figure(value: float, interval: tuple[float, float] | None) -> str:
    """Return a figure for programs, in its table's unit: `194000000 [180000000, 1.2e9]`."""
    text = f"{value:.6g}"
    return f"{text} [{interval[0]:.6g}, {interval[1]:.6g}]" if interval else text


def _figure_with_unit(value: float, interval: tuple[float, float] | None, unit: str) -> str:
    """Return a figure for people: `194 ms [180 ms, 1.2 s]`."""
    text = shown(value, unit)
    return f"{text} [{shown(interval[0], unit)}, {shown(interval[1], unit)}]" if interval else text
