"""Peak rates of devices: what was measured once, and the datasheet's values."""

from collections.abc import Iterator, Mapping
from typing import Any

from schemas.agent import Hardware
from schemas.run import Ceiling

_TERA = 1e12


def roof_records(hardware: Hardware) -> list[dict[str, Any]]:
    """Return the peaks of devices that have some, in FLOP/s and bytes/s, for JSON."""

    def figures(ceiling: Ceiling) -> dict[str, Any]:
        return {
            "measured": ceiling.measured,
            "datasheet": ceiling.datasheet,
            "method": ceiling.method,
        }

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

    def in_tera(value: float) -> str:
        return f"{value / _TERA:.3g}"

    def text(ceiling: Ceiling) -> str:
        """Return `51.9 of 67` when a datasheet has 67; a dash when it was not measured."""
        measured = "\N{EN DASH}" if ceiling.measured is None else in_tera(ceiling.measured)
        return (
            measured if ceiling.datasheet is None else f"{measured} of {in_tera(ceiling.datasheet)}"
        )

    for device, peaks, bandwidth, note in _devices(hardware):
        flops = [f"{name} {text(peak)}" for name, peak in peaks.items()]
        parts = [f"{', '.join(flops)} TFLOP/s"] if flops else []
        if bandwidth is not None:
            parts.append(f"memory {text(bandwidth)} TB/s")
        yield device, "; ".join(parts), note


def _devices(
    hardware: Hardware,
) -> Iterator[tuple[str, Mapping[str, Ceiling], Ceiling | None, str]]:
    name = hardware.cpu_model or hardware.architecture
    yield f"{name}, {hardware.cores} threads", hardware.peak_flops, hardware.memory_bandwidth, ""
    for gpu in hardware.accelerators:
        yield gpu.name, gpu.peak_flops, gpu.memory_bandwidth, gpu.roof_note
