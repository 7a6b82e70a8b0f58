"""What makers say of devices: read from `makers/`, and set beside what was measured.

A GPU is known by the name that NVML gives. A CPU's peak is computed: FLOP a cycle and core, cores,
and the highest clock that the kernel tells; where one of them is unknown there is none.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from schemas.run import Ceiling
from services.agent.ceilings import WHOLE, Roof, Threads

FOLDER = Path(__file__).resolve().parent / "makers"
_CPUS = Path("/sys/devices/system/cpu")
_MAKER = re.compile(r"^(NVIDIA |Tesla )+")


@dataclass(frozen=True, slots=True)
class Datasheet:
    """FLOP/s by precision and bytes/s of a whole device; `source` says whose word it is."""

    source: str = ""
    peaks: Mapping[str, float] = field(default_factory=dict)
    bandwidth: float | None = None


UNKNOWN = Datasheet()


def gpu_datasheet(name: str, folder: Path = FOLDER) -> Datasheet:
    """Return the datasheet of a GPU by NVML's name for it; `UNKNOWN` where none is known."""
    bare = _MAKER.sub("", name)
    for each in _entries(folder / "gpus.yml", "devices"):
        if re.fullmatch(each["name"], bare):
            peaks = {kind: 1e12 * value for kind, value in each["peak"].items()}
            return Datasheet(each["source"], peaks, 1e9 * each["memory"])
    return UNKNOWN


def cpu_datasheet(
    model: str, cores: Sequence[int], folder: Path = FOLDER, system: Path = _CPUS
) -> Datasheet:
    """Return the peak of usable cores, threads of one core counted once; no bandwidth."""
    clocks = [_clock_hz(system, core) for core in cores]
    siblings = {_siblings(system, core) for core in cores}
    for each in _entries(folder / "cpus.yml", "processors"):
        if re.search(each["name"], model) and all(clocks) and "" not in siblings:
            peak = each["flops_a_cycle"] * len(siblings) * max(clocks, default=0.0)
            how = f"{len(siblings)} cores at {max(clocks, default=0.0) / 1e9:g} GHz"
            peaks = {"float32": peak, "float64": peak / 2}
            return Datasheet(f"{each['source']}; {how}", peaks if peak else {})
    return UNKNOWN


def beside(roof: Roof, sheet: Datasheet) -> Roof:
    """Return a roof with a datasheet's figures beside those of the whole device.

    A datasheet tells of no part of a device: figures of fewer threads stay as they are.
    """
    if not sheet.source:
        return roof
    peaks = {
        name: _with(roof.peaks.get(name, {}), sheet.peaks.get(name), sheet.source)
        for name in (*roof.peaks, *(each for each in sheet.peaks if each not in roof.peaks))
    }
    bandwidths = _with(roof.bandwidths, sheet.bandwidth, sheet.source)
    return replace(roof, peaks=peaks, bandwidths=bandwidths)


def _with(known: Threads, told: float | None, source: str) -> Threads:
    if told is None:
        return known
    whole = max(known, default=WHOLE)
    each = known.get(whole, Ceiling())
    method = "; ".join(filter(None, (each.method, f"datasheet: {source}")))
    return {**known, whole: each.model_copy(update={"datasheet": told, "method": method})}


def _entries(path: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text("utf-8"))[name]
    return found


def _clock_hz(system: Path, core: int) -> float:
    """Return a core's highest clock, 0 where the kernel tells none (kHz in cpufreq)."""
    text = _text(system / f"cpu{core}" / "cpufreq" / "cpuinfo_max_freq")
    return 1e3 * int(text) if text.isdecimal() else 0.0


def _siblings(system: Path, core: int) -> str:
    return _text(system / f"cpu{core}" / "topology" / "thread_siblings_list")


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
