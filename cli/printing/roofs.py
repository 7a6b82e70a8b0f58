"""Peak rates of devices: the best that was measured, its uncertainty, and the datasheet's values.

`mlscope doctor`, `mlscope show` and `mlscope ls` print them from the same description of a machine.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from schemas.agent import Hardware
from schemas.run import Ceiling

_TERA = 1e12


def roof_records(hardware: Hardware) -> list[dict[str, Any]]:
    """Return the peaks of devices that have some, in FLOP/s and bytes/s, for JSON."""

    def figures(ceiling: Ceiling) -> dict[str, Any]:
        names = ("measured", "datasheet", "method", "uncertainty", "measurements", "conditions")
        measured = None if ceiling.measured_ns is None else _time_text(ceiling.measured_ns)
        return {name: getattr(ceiling, name) for name in names} | {"measured_at": measured}

    return [
        {
            "device": device,
            "peak_flops": {name: figures(peak) for name, peak in peaks.items()},
            "memory_bandwidth": None if bandwidth is None else figures(bandwidth),
        }
        for device, peaks, bandwidth, _ in _devices(hardware)
        if peaks or bandwidth
    ]


def roof_lines(hardware: Hardware) -> Iterator[tuple[str, str, str]]:
    """Yield each device, its peaks as text ('' for none), and why some were not measured."""
    for device, peaks, bandwidth, note in _devices(hardware):
        flops = [f"{name} {_ceiling_text(peak)}" for name, peak in peaks.items()]
        parts = [f"{', '.join(flops)} TFLOP/s"] if flops else []
        if bandwidth is not None:
            parts.append(f"memory {_ceiling_text(bandwidth)} TB/s")
        ceilings = [*peaks.values(), *([bandwidth] if bandwidth else [])]
        stamps = [ceiling.measured_ns for ceiling in ceilings if ceiling.measured_ns is not None]
        if stamps:
            measurements = max(ceiling.measurements for ceiling in ceilings)
            count = f"best of {measurements} measurements" if measurements > 1 else "1 measurement"
            # The day of the newest that is a best.
            parts.append(f"{count}, {_time_text(max(stamps)).partition('T')[0]}")
        yield device, "; ".join(parts), note


def roof_texts(hardware: Hardware) -> list[str]:
    """Return a line for each device: its peaks, or why there are none."""
    return [
        f"{device}: {'; '.join(filter(None, (figures, note))) or 'not measured yet'}"
        for device, figures, note in roof_lines(hardware)
    ]


def _ceiling_text(ceiling: Ceiling) -> str:
    """Return `51.9 (up to 2.0% higher) of 67` where a datasheet has 67; a dash if not measured."""
    text = "\N{EN DASH}" if ceiling.measured is None else f"{ceiling.measured / _TERA:.3g}"
    if ceiling.measured is not None and ceiling.uncertainty is not None:
        text += f" (up to {ceiling.uncertainty:.1%} higher)"
    elif ceiling.measured is not None:
        text += " (uncertainty unknown)"
    return text if ceiling.datasheet is None else f"{text} of {ceiling.datasheet / _TERA:.3g}"


def _time_text(epoch_ns: int) -> str:
    return f"{datetime.fromtimestamp(epoch_ns / 1e9, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _devices(
    hardware: Hardware,
) -> Iterator[tuple[str, Mapping[str, Ceiling], Ceiling | None, str]]:
    name, note = hardware.cpu_model or hardware.architecture, hardware.roof_note
    host = f"{name}, {hardware.cores} threads"
    yield host, hardware.peak_flops, hardware.memory_bandwidth, note
    for gpu in (own for own in hardware.accelerators if own.kind == "gpu"):
        yield gpu.name, gpu.peak_flops, gpu.memory_bandwidth, gpu.roof_note
