"""Whether runs of two evaluations have like conditions: which must be equal, and how nearly."""

import json
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from mlscope.manifests.naming import name_in_figures
from services.analyzer.building.noise import MOST_THROTTLED
from services.analyzer.comparisons.source import Cells, Source, prepared_as
from services.analyzer.tables.device_conditions import SM_CLOCK, THROTTLED

EQUAL_CONDITIONS = (
    "device",
    "provider",
    "precision",
    "threads",
    "options",
    "pacing",
    "dataset",
    "seed",
    "calls_in_flight",
    "host_memory",
)
"""Conditions that must be equal, as must the model's name; the versions of the model, the
framework, mlscope and Python may differ."""
SAMPLES = "samples"
"""The parameter that says when samples are prepared: what counts is when they were."""
MACHINE_CONDITIONS = {"cores": "cores", "cpu_governor": "CPU governor"}
"""Machine conditions in a run's noise, with their names; equal where both runs have them."""
HARDWARE_CONDITIONS = {"processor": "processor", "accelerator": "GPU model"}
"""Hardware conditions of a run, with their names; equal where both runs have them."""
MOST_GPU_CLOCK_CHANGE = 0.05
"""The most by which median SM clocks of two runs may differ, as a share."""
MOST_CPU_CLOCK_CHANGE = 0.10
"""The share by which CPU clocks, read once at a run's end, may differ without a caveat."""


def differing_conditions(first: Source, second: Source, old: Cells, new: Cells) -> list[str]:
    """Return the names of conditions that differ but must be equal.

    `old` is a row of latency of `first`, `new` one of `second`.
    """
    before, after = _of_pair(first, second, old, new)
    model, other_model = (name_in_figures(str(run.get("model") or "")) for run in (before, after))
    names = ["model"] if model != other_model else []
    parameters, other_parameters = (
        json.loads(run.get("parameters") or "{}") for run in (before, after)
    )
    names += [
        f"parameter {name}"
        for name in sorted((parameters.keys() | other_parameters.keys()) - {SAMPLES})
        if parameters.get(name) != other_parameters.get(name)
    ]
    names += [name for name in EQUAL_CONDITIONS if before.get(name) != after.get(name)]
    modes = {prepared_as(before), prepared_as(after)}
    names += [SAMPLES] if len(modes - {""}) > 1 else []
    names += _differing(HARDWARE_CONDITIONS, before, after)
    names += _differing(MACHINE_CONDITIONS, _noise(before), _noise(after))
    names += _differing_gpu_conditions(_sampled(first, old), _sampled(second, new))
    runs = ((old, before), (new, after))
    uncompleted = (row["run"] for row, run in runs if run and run.get("end") != "completed")
    return [*names, *(f"end of {run}" for run in uncompleted)]


def cpu_clock_caveat(first: Source, second: Source, old: Cells, new: Cells) -> str:
    """Return a caveat where the CPU clocks of two runs differ; '' where equal or unknown.

    `old` is a row of latency of `first`, `new` one of `second`.
    """
    before, after = (_noise(run).get("cpu_khz") or 0 for run in _of_pair(first, second, old, new))
    if not before or not after or abs(after / before - 1.0) <= MOST_CPU_CLOCK_CHANGE:
        return ""
    clocks = f"{before / 1e6:.2f} and {after / 1e6:.2f} GHz"
    return f"{old['run']}, {new['run']}: at their ends the processor's clock was {clocks}"


def unknown_preparation(first: Source, second: Source, old: Cells, new: Cells) -> str:
    """Return a caveat where one of two runs does not say when its samples were prepared; else ''.

    `old` is a row of latency of `first`, `new` one of `second`.
    """
    modes = [prepared_as(run) for run in _of_pair(first, second, old, new)]
    if all(modes) or not any(modes):
        return ""
    known_mode = next(filter(None, modes))
    pair = f"{old['run']}, {new['run']}"
    return f"{pair}: one has samples {known_mode}; when the other's were prepared is unknown"


def _of_pair(first: Source, second: Source, old: Cells, new: Cells) -> tuple[Cells, Cells]:
    """Return the conditions of the runs of two rows."""
    return first.conditions.get(old["run"], {}), second.conditions.get(new["run"], {})


def _differing(names: Mapping[str, str], before: Cells, after: Cells) -> list[str]:
    """Return the names of conditions that both runs have, with different values."""
    both = {key: (before.get(key), after.get(key)) for key in names}
    return [
        names[key]
        for key, (old, new) in both.items()
        if old not in (None, "") and new not in (None, "") and old != new
    ]


def _noise(conditions: Cells) -> Cells:
    value = json.loads(conditions.get("noise") or "{}")
    return value if isinstance(value, dict) else {}


def _sampled(source: Source, row: Cells) -> list[Cells]:
    """Return the samples of a run's GPU, else those of interleaved runs that were traced deeper."""
    load = ("agent", "scenario", "batch_size")
    of_load = [
        sampled
        for sampled in source.rows("device_conditions")
        if not sampled["variant"] and all(sampled[name] == row[name] for name in load)
    ]
    return [sampled for sampled in of_load if sampled["run"] == row["run"]] or of_load


def _differing_gpu_conditions(before: Sequence[Cells], after: Sequence[Cells]) -> Iterator[str]:
    """Yield the GPU conditions that differ, where both evaluations sampled them."""
    clocks = [_values(rows, SM_CLOCK, "median") for rows in (before, after)]
    if all(clocks):
        old, new = map(median, clocks)
        if old and abs(new / old - 1.0) > MOST_GPU_CLOCK_CHANGE:
            yield "GPU clock"
    shares = [_values(rows, THROTTLED, "share") for rows in (before, after)]
    if all(shares):
        old, new = map(max, shares)
        if (old > MOST_THROTTLED) != (new > MOST_THROTTLED):
            yield "throttling"


def _values(rows: Sequence[Cells], condition: str, column: str) -> list[float]:
    """Return a column of the rows of device_conditions about one `condition`."""
    return [row[column] for row in rows if row["what"] == condition]
