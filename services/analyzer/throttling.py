"""What held a GPU's clocks down, by NVML's masks of reasons (nvml.h, nvmlClocksEventReasons)."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import polars as pl

REASONS_SERIES = "nvml.throttle_reasons"
IDLE = 0x1
REASONS: Mapping[int, str] = MappingProxyType(
    {
        IDLE: "idle",
        0x2: "clocks set for applications",
        0x4: "software power cap",
        0x8: "hardware slow-down",
        0x10: "sync boost",
        0x20: "software thermal slow-down",
        0x40: "hardware thermal slow-down",
        0x80: "hardware power brake",
        0x100: "clocks set for the display",
    }
)
"""By bit; beyond them a driver may know others."""
SLOWING = 0xFC
"""Those of power and heat: what is set or idle is no throttling."""


def reasons_in(masks: pl.DataFrame) -> Iterator[tuple[str, float, bool]]:
    """Yield each reason seen, its share of the samples, and whether it is a throttling."""
    values = masks["value"].cast(pl.Int64).to_numpy()
    seen = 0
    for mask in values:
        seen |= int(mask)
    for bit in (1 << place for place in range(seen.bit_length()) if seen >> place & 1):
        share = float(((values & bit) != 0).mean())
        yield REASONS.get(bit, f"reason {bit:#x}"), share, bool(bit & SLOWING)


def throttled_share(masks: pl.DataFrame) -> float:
    """Return the share of samples in which the clocks were held down by power or heat.

    Samples come at even distances: it is the share of the time.
    """
    values = masks["value"].cast(pl.Int64).to_numpy()
    return float(((values & SLOWING) != 0).mean()) if len(values) else 0.0
