"""Published figures of devices, from their vendors' datasheets: read from the files of this folder.

NVML's name identifies a GPU. A CPU's peak is computed: FLOP a cycle and core, times cores, times
the highest clock that the kernel reports; where one of them is unknown there is no peak.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from schemas.run import Ceiling
from services.agent.machine.kernel_files import text_of
from services.agent.machine.roofline.ceilings import ALL_THREADS, CeilingsByThreads, Roof

FOLDER = Path(__file__).resolve().parent
_CPUS = Path("/sys/devices/system/cpu")
_MAKER = re.compile(r"^(NVIDIA |Tesla )+")


@dataclass(frozen=True, slots=True)
class Datasheet:
    """FLOP/s by precision and bytes/s of a whole device; `source` names the publication."""

    source: str = ""
    peaks: Mapping[str, float] = field(default_factory=dict)
    bandwidth: float | None = None


UNKNOWN = Datasheet()


def gpu_datasheet(name: str, folder: Path = FOLDER) -> Datasheet:
    """Return the datasheet of a GPU by NVML's name for it; `UNKNOWN` where there is none."""
    model = _MAKER.sub("", name)
    for entry in _entries(folder / "gpus.yml", "devices"):
        if re.fullmatch(entry["name"], model):
            peaks = {precision: 1e12 * tflops for precision, tflops in entry["peak"].items()}
            return Datasheet(entry["source"], peaks, 1e9 * entry["memory"])
    return UNKNOWN


def cpu_datasheet(
    model: str, cores: Sequence[int], folder: Path = FOLDER, system: Path = _CPUS
) -> Datasheet:
    """Return the peak of some cores of a CPU `model`, threads of one core counted once.

    `folder` holds the datasheets, `system` the kernel's files of each core. There is no bandwidth.
    """
    clocks = [_clock_hz(system, core) for core in cores]
    siblings = {text_of(system / f"cpu{core}/topology/thread_siblings_list") for core in cores}
    for entry in _entries(folder / "cpus.yml", "processors"):
        if re.search(entry["name"], model) and all(clocks) and "" not in siblings:
            clock_hz = max(clocks, default=0.0)
            peak = entry["flops_a_cycle"] * len(siblings) * clock_hz
            source = f"{entry['source']}; {len(siblings)} cores at {clock_hz / 1e9:g} GHz"
            return Datasheet(source, {"float32": peak, "float64": peak / 2} if peak else {})
    return UNKNOWN


def with_datasheet_figures(roof: Roof, sheet: Datasheet) -> Roof:
    """Return a roof with a datasheet's figures added to those of the whole device.

    A datasheet has no figures of a part of a device: those of fewer threads stay as they are.
    """
    if not sheet.source:
        return roof
    peaks = {
        name: _with_figure(roof.peaks.get(name, {}), sheet.peaks.get(name), sheet.source)
        for name in dict.fromkeys((*roof.peaks, *sheet.peaks))
    }
    bandwidths = _with_figure(roof.bandwidths, sheet.bandwidth, sheet.source)
    return replace(roof, peaks=peaks, bandwidths=bandwidths)


def _with_figure(
    by_threads: CeilingsByThreads, figure: float | None, source: str
) -> CeilingsByThreads:
    """Return ceilings with a datasheet's figure added to that of the most threads."""
    if figure is None:
        return by_threads
    most_threads = max(by_threads, default=ALL_THREADS)
    ceiling = by_threads.get(most_threads, Ceiling())
    method = "; ".join(filter(None, (ceiling.method, f"datasheet: {source}")))
    changes = {"datasheet": figure, "method": method}
    return {**by_threads, most_threads: ceiling.model_copy(update=changes)}


def _entries(path: Path, name: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = yaml.safe_load(path.read_text("utf-8"))[name]
    return entries


def _clock_hz(system: Path, core: int) -> float:
    """Return a core's highest clock, 0 where the kernel reports none (cpufreq has kHz)."""
    text = text_of(system / f"cpu{core}" / "cpufreq" / "cpuinfo_max_freq")
    return 1e3 * int(text) if text.isdecimal() else 0.0
