"""Devices' roofs as they are shown: what was measured once, and the datasheet beside."""

from collections.abc import Iterator, Mapping
from typing import Any

from schemas.agent import Hardware
from schemas.run import Ceiling

_TERA = 1e12


def roof_records(hardware: Hardware) -> list[dict[str, Any]]:
    """Return each device's figures in FLOP/s and bytes/s, as JSON has them; without any none."""
    return [
        {
            "device": device,
            "peak_flops": {name: _figures(each) for name, each in peaks.items()},
            "memory_bandwidth": None if bandwidth is None else _figures(bandwidth),
        }
        for device, peaks, bandwidth, _ in _devices(hardware)
        if peaks or bandwidth
    ]


def roof_lines(hardware: Hardware) -> Iterator[tuple[str, str, str]]:
    """Yield each device, its figures for people ('' for none), and what could not be measured."""
    for device, peaks, bandwidth, note in _devices(hardware):
        told = [f"{name} {_shown(each)}" for name, each in peaks.items()]
        parts = [f"{', '.join(told)} TFLOP/s"] if told else []
        if bandwidth is not None:
            parts.append(f"memory {_shown(bandwidth)} TB/s")
        yield device, "; ".join(parts), note


def _devices(
    hardware: Hardware,
) -> Iterator[tuple[str, Mapping[str, Ceiling], Ceiling | None, str]]:
    name = hardware.cpu_model or hardware.architecture
    yield f"{name}, {hardware.cores} threads", hardware.peak_flops, hardware.memory_bandwidth, ""
    for each in hardware.accelerators:
        yield each.name, each.peak_flops, each.memory_bandwidth, each.roof_note


def _figures(ceiling: Ceiling) -> dict[str, Any]:
    return {"measured": ceiling.measured, "datasheet": ceiling.datasheet, "method": ceiling.method}


def _shown(ceiling: Ceiling) -> str:
    """Return tera a second: `51.9 of 67` where a datasheet says 67; a dash for not measured."""
    measured = "\N{EN DASH}" if ceiling.measured is None else _number(ceiling.measured)
    return measured if ceiling.datasheet is None else f"{measured} of {_number(ceiling.datasheet)}"


def _number(value: float) -> str:
    return f"{value / _TERA:.3g}"
