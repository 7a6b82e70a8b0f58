"""Lanes: which row of a timeline each span is drawn in. Pure.

A lane holds the spans of one level on one thread, of one stream of a device, of one sampled
series, or of one phase of the load. Lanes stand as on a screen: load, host by level and thread,
devices by stream, counters.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.batch import SpanKind
from schemas.level import Level
from schemas.trace import TraceLane

Codes = npt.NDArray[np.int64]

LOAD, HOST, DEVICE, COUNTER = range(4)
GROUPS = ("load", "host", "device", "counter")
LOAD_LEVELS = ("query", "late", "queued")
LOAD_TITLES = ("queries", "issued late", "queued")
LEVELS: Mapping[int, str] = {
    level: level.name.lower() for level in Level if level != Level.FRAMEWORK
} | {Level.FRAMEWORK: "layer"}
COUNTER_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "resource.rss": "resident memory",
        "resource.cpu": "CPU time so far",
        "resource.cpu_user": "user CPU time",
        "resource.cpu_system": "system CPU time",
        "resource.minor_faults": "minor page faults",
        "resource.major_faults": "major page faults",
        "resource.voluntary_switches": "voluntary switches",
        "resource.involuntary_switches": "involuntary switches",
        "resource.io_read": "bytes read",
        "resource.io_write": "bytes written",
        "nvml.power": "GPU power",
        "nvml.energy": "GPU energy so far",
        "nvml.clock_sm": "SM clock",
        "nvml.clock_memory": "GPU memory clock",
        "nvml.throttle_reasons": "throttle reasons",
        "nvml.utilisation": "GPU use",
        "nvml.utilisation_memory": "GPU memory use",
        "nvml.temperature": "GPU temperature",
        "nvml.memory_used": "GPU memory in use",
        "nvml.gpm_sm_utilisation": "SM use",
        "nvml.gpm_sm_occupancy": "SM occupancy",
        "nvml.gpm_tensor_utilisation": "tensor core use",
        "nvml.gpm_dram_bandwidth": "DRAM bandwidth use",
        "energy.gpu": "GPU energy",
        "energy.package": "CPU energy",
        "energy.dram": "DRAM energy",
    }
)
"""What sampled series are called on a screen; the others keep their names."""
MOST_LANES = 1 << 16
"""Lanes are numbered in 16 bits; the spans of further lanes share the last one."""

_DEVICE_KINDS = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.SET)
_MOST_LEVEL, _MOST_DEVICE, _LEAST_TRACK = 15, (1 << 16) - 1, -(1 << 31)


class LaneKey(NamedTuple):
    """What the spans of a lane share; keys sort as lanes stand on a screen.

    `track` is a thread or stream; of a counter the number of its name; of load 0.
    """

    group: int
    level: int
    device: int
    track: int


def lane_codes(
    level: npt.NDArray[np.integer],
    kind: npt.NDArray[np.integer],
    track: npt.NDArray[np.integer],
    device: npt.NDArray[np.integer],
    name: npt.NDArray[np.integer],
) -> Codes:
    """Return a number for each span that is equal for spans of a lane, and sorts like its key.

    Columns of spans: `level`, `kind` (SpanKind), `track` (the column thread), `device` (-1 or
    absent devices count as 0) and the number of their `name`.
    """
    is_device = np.isin(kind, _DEVICE_KINDS)
    is_counter = kind == SpanKind.SAMPLE
    group = np.where(is_device, DEVICE, np.where(is_counter, COUNTER, HOST)).astype(np.int64)
    levels = np.where(is_device | is_counter, 0, np.clip(level, 0, _MOST_LEVEL))
    devices = np.where(group == HOST, 0, np.clip(device, 0, _MOST_DEVICE)).astype(np.int64)
    tracks = np.where(is_counter, name, track).astype(np.int64)
    return (((group << 4 | levels) << 16 | devices) << 32) | (tracks - _LEAST_TRACK)


def code_of(key: LaneKey) -> int:
    """Return the number of a lane's spans."""
    return ((key.group << 4 | key.level) << 16 | key.device) << 32 | (key.track - _LEAST_TRACK)


def key_of(code: int) -> LaneKey:
    """Return the key of a lane from the number of its spans."""
    track = (code & 0xFFFF_FFFF) + _LEAST_TRACK
    return LaneKey(code >> 52, code >> 48 & 0xF, code >> 32 & 0xFFFF, track)


def lane_of(number: int, key: LaneKey, series: str = "", unit: str = "") -> TraceLane:
    """Return the description of a lane without its counts.

    `number` is the lane's; `key` says what its spans share; a counter's `series` is its name, and
    `unit` that of its values.
    """
    group = GROUPS[key.group]
    if key.group == LOAD:
        level = LOAD_LEVELS[key.level]
        return TraceLane(
            lane=number,
            key=f"load/{level}",
            group="load",
            level=level,
            title=LOAD_TITLES[key.level],
        )
    if key.group == HOST:
        level = LEVELS.get(key.level, str(key.level))
        title = f"{level} · thread {key.track}"
        path = f"{group}/{level}/{key.track}"
        return TraceLane(
            lane=number, key=path, group="host", level=level, title=title, thread=key.track
        )
    device = key.device
    if key.group == DEVICE:
        title, path = f"device {device} · stream {key.track}", f"{group}/{device}/{key.track}"
        place = {"device": device, "stream": key.track}
        return TraceLane(
            lane=number, key=path, group="device", level="kernel", title=title, **place
        )
    path = f"{group}/{series}/{device}"
    title = COUNTER_TITLES.get(series, series.removeprefix("perf."))
    title = f"{title} · device {device}" if device else title
    return TraceLane(lane=number, key=path, group="counter", level=unit, title=title, device=device)
