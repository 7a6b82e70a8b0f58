"""When runs of two evaluations have like conditions: what must be the same, and by how much."""

import json
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from services.analyzer.across.source import Cells, Source
from services.analyzer.noise import MOST_THROTTLED
from services.analyzer.tables.device_conditions import SM_CLOCK, THROTTLED

ALIKE = ("device", "provider", "precision", "threads", "options", "pacing", "dataset", "seed")
"""Conditions that must be alike beside the model's name; its version, the framework's, mlscope's
and Python's may differ."""
MACHINE = {"cores": "cores", "cpu_governor": "CPU governor"}
"""What runs tell of their machine as noise, and its name; it must be alike where both tell it."""
HARDWARE = {"processor": "processor", "accelerator": "GPU model"}
"""What runs tell of what computed them, and its name; likewise."""
MOST_APART = 0.05
"""How far apart median SM clocks of two runs may be."""
MOST_CPU_APART = 0.10
"""How far apart CPU clocks may be before a caveat says so: each is one reading at a run's end."""


def unlike(first: Source, other: Source, old: Cells, new: Cells) -> list[str]:
    """Return the names of conditions that differ and may not, of a row of each evaluation."""
    were, are = (s.conditions.get(r["run"], {}) for s, r in ((first, old), (other, new)))
    found = ["model"] if _model_name(were) != _model_name(are) else []
    found += _parameters_apart(were, are)
    found += [name for name in ALIKE if were.get(name) != are.get(name)]
    found += _told_apart(HARDWARE, were, are)
    found += _told_apart(MACHINE, _noise(were), _noise(are))
    found += _of_devices(_sampled(first, old), _sampled(other, new))
    return found + [f"end of {r['run']}" for r, told in ((old, were), (new, are)) if _is_bad(told)]


def clocks_apart(first: Source, other: Source, old: Cells, new: Cells) -> str:
    """Return a caveat where the processor's clock was another; '' where it was not, or unknown."""
    before, after = (
        _noise(side.conditions.get(row["run"], {})).get("cpu_khz") or 0
        for side, row in ((first, old), (other, new))
    )
    if not before or not after or abs(after / before - 1.0) <= MOST_CPU_APART:
        return ""
    told = " and ".join(f"{each / 1e6:.2f}" for each in (before, after))
    return f"{old['run']}, {new['run']}: at their ends the processor's clock was {told} GHz"


def _parameters_apart(were: Cells, are: Cells) -> list[str]:
    """Return the scenario's parameters of which two runs have other values, or only one has."""
    before, after = (json.loads(each.get("parameters") or "{}") for each in (were, are))
    names = sorted(before.keys() | after.keys())
    return [f"parameter {name}" for name in names if before.get(name) != after.get(name)]


def _told_apart(names: Mapping[str, str], ones: Cells, others: Cells) -> list[str]:
    """Return what both sides tell, and differently."""
    both = {name: (ones.get(name), others.get(name)) for name in names}
    return [
        names[name]
        for name, (one, other) in both.items()
        if one not in (None, "") and other not in (None, "") and one != other
    ]


def _model_name(told: Cells) -> str:
    """Return a model's name without its version."""
    return str(told.get("model") or "").rpartition(":")[0]


def _noise(told: Cells) -> Cells:
    value = json.loads(told.get("noise") or "{}")
    return value if isinstance(value, dict) else {}


def _is_bad(told: Cells) -> bool:
    return bool(told) and told.get("end") != "completed"


def _sampled(source: Source, row: Cells) -> list[Cells]:
    """Return what was sampled of a run's GPU; else of runs traced deeper, which took turns."""
    place = ("agent", "scenario", "batch_size")
    near = [
        each
        for each in source.rows("device_conditions")
        if not each["variant"] and all(each[name] == row[name] for name in place)
    ]
    return [each for each in near if each["run"] == row["run"]] or near


def _of_devices(before: Sequence[Cells], after: Sequence[Cells]) -> Iterator[str]:
    """Yield what GPUs differ in, as far as both evaluations sampled it."""
    clocks = [
        [each["median"] for each in rows if each["what"] == SM_CLOCK] for rows in (before, after)
    ]
    if all(clocks):
        old, new = (median(each) for each in clocks)
        if old and abs(new / old - 1.0) > MOST_APART:
            yield "GPU clock"
    held = [
        [each["share"] for each in rows if each["what"] == THROTTLED] for rows in (before, after)
    ]
    if all(held) and len({max(each) > MOST_THROTTLED for each in held}) > 1:
        yield "throttling"
