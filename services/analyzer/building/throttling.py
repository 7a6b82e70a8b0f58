"""Why a GPU's clocks were lowered, by NVML's masks of reasons (nvml.h, nvmlClocksEventReasons)."""

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
"""Names by bit; a driver may set further bits."""
SLOWING = 0xFC
"""The bits of power and heat: clocks set by a user or idle are no throttling."""


def reasons_in(masks: pl.DataFrame) -> Iterator[tuple[str, float, bool]]:
    """Yield each reason in the masks, its share of the samples, and whether it is throttling."""
    values = masks["value"].cast(pl.Int64).to_numpy()
    all_bits = 0
    for mask in values:
        all_bits |= int(mask)
    for bit in (1 << place for place in range(all_bits.bit_length()) if all_bits >> place & 1):
        share = float(((values & bit) != 0).mean())
        yield REASONS.get(bit, f"reason {bit:#x}"), share, bool(bit & SLOWING)


def throttled_share(masks: pl.DataFrame) -> float:
    """Return the share (0 to 1) of samples in which power or heat lowered the clocks.

    Samples are evenly spaced, so this is also the share of the time.
    """
    values = masks["value"].cast(pl.Int64).to_numpy()
    return float(((values & SLOWING) != 0).mean()) if len(values) else 0.0
