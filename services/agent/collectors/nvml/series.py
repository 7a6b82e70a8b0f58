"""Readings of NVML as series of samples. Pure.

One SAMPLE span per value: duration 0, attributes {value, unit, device}. Units are UCUM's: `W`,
`MHz`, `%`, `Cel`, `By`, `1`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mlscope.tracing.collected import CollectedSpan
from schemas.batch import SpanKind
from schemas.level import Level

UNITS: Mapping[str, str] = MappingProxyType(
    {
        "nvml.power": "W",
        "nvml.energy": "mJ",
        "nvml.clock_sm": "MHz",
        "nvml.clock_memory": "MHz",
        #: a bit mask of reasons; bits 2 to 7 mean a slow-down because of power or heat
        "nvml.throttle_reasons": "1",
        "nvml.utilisation": "%",
        "nvml.utilisation_memory": "%",
        "nvml.temperature": "Cel",
        "nvml.memory_used": "By",
        "nvml.gpm_sm_utilisation": "%",
        "nvml.gpm_sm_occupancy": "%",
        "nvml.gpm_tensor_utilisation": "%",
        "nvml.gpm_dram_bandwidth": "%",
    }
)

THROTTLED = 0xFC
"""SW power cap 0x4, HW slow-down 0x8, sync boost 0x10, SW thermal 0x20, HW thermal 0x40, power
brake 0x80 (nvml.h, nvmlClocksEventReasons)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series of one device at one instant (CLOCK_MONOTONIC ns)."""

    at_ns: int
    device: int
    series: str
    value: float


def spans_of(samples: Iterable[Sample], thread: int) -> Iterator[CollectedSpan]:
    """Yield samples as spans of the sampling thread."""
    for sample in samples:
        yield CollectedSpan(
            level=Level.SYSTEM,
            name=sample.series,
            start_ns=sample.at_ns,
            duration_ns=0,
            thread=thread,
            kind=SpanKind.SAMPLE,
            attributes={
                "value": sample.value,
                "unit": UNITS.get(sample.series, "1"),
                "device": sample.device,
            },
        )


def notes_of(samples: Iterable[Sample]) -> tuple[str, ...]:
    """Return a caveat where clocks were throttled."""
    masks = [int(sample.value) for sample in samples if sample.series == "nvml.throttle_reasons"]
    throttled = sum(1 for mask in masks if mask & THROTTLED)
    if not throttled:
        return ()
    return (f"the GPU's clocks were throttled in {throttled} of {len(masks)} samples",)
