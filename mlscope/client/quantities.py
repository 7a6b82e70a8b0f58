"""Numbers with units as people read them: `5.12 ms`, `1 234.5 /s`, `3.2 MB`. For eyes only."""

import math
from typing import Any

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def shown(value: Any, unit: str = "") -> str:
    """Return a cell as text; None and not-a-number are a dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    if unit == "ns":
        return _scaled(value, _TIMES)
    if unit in ("By", "B", "bytes"):
        return _scaled(value, _BYTES)
    if unit == "%":
        return f"{_number(value)} %"
    if unit == "1/s":
        return f"{_number(value)} /s"
    return _number(value) if unit in ("", "1") else f"{_number(value)} {unit}"


def _scaled(value: float, scales: tuple[tuple[float, str], ...]) -> str:
    factor, unit = next((s for s in scales if abs(value) >= s[0]), scales[-1])
    return f"{_number(value / factor)} {unit}"


def _number(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value)}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
