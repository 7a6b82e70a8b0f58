"""Numbers with units for people to read: `5.12 ms`, `3.2 MB`. Not for programs to parse. Pure."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from schemas.analysis import Column

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_WORK = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SCALES: Mapping[str, tuple[tuple[float, str], ...]] = {
    "ns": _TIMES,
    **dict.fromkeys(("By", "B", "bytes"), _BYTES),
    **{
        unit: tuple((factor, prefix + unit) for factor, prefix in _WORK)
        for unit in ("FLOP", "FLOP/s", "B/s")
    },
}
_SHARES = ("share", "probability", "of_")
_PARTS = ("gain", "counted", "change", "change_low", "change_high")


def unit_of(column: Column) -> str:
    """Return the unit in which a column is shown; `share` stands for percent."""
    if column.type not in ("int", "float"):
        return ""
    name = column.name
    is_share = name.startswith(_SHARES) or name.endswith("_share") or name in _PARTS
    is_share = is_share and column.type == "float" and column.unit in ("", "1")
    return "share" if is_share else column.unit


_UNITS_SHOWN: Mapping[str, str] = MappingProxyType({"FLOP/By": "FLOP/B", "1/s": "/s", "1": ""})
_IN_NAMES: Mapping[str, str] = MappingProxyType({"ns": "_ns", "By": "_bytes"})


def head_of(name: str, unit: str) -> str:
    """Return a column's heading without a suffix such as `_ns`, because its cells have units."""
    ending = _IN_NAMES.get(unit, "")
    return name.removesuffix(ending) or name


def heads_of(columns: Sequence[tuple[str, str]]) -> list[str]:
    """Return the headings of columns, given as (name, unit); no two columns get the same."""
    heads = [head_of(name, unit) for name, unit in columns]
    return [
        name if heads.count(head) > 1 else head
        for (name, _), head in zip(columns, heads, strict=True)
    ]


def shown(value: Any, unit: str = "") -> str:
    """Return a cell of a column with this `unit` as text; None, NaN and infinity are a dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return {True: "yes", False: "no"}[value]
    if not isinstance(value, int | float):
        return str(value)
    if unit == "share":
        return f"{value:z.1%}"
    if unit in _SCALES:
        factor, scaled_unit = _scale_of(value, _SCALES[unit])
        return f"{number(value / factor)} {scaled_unit}"
    return f"{number(value)} {_UNITS_SHOWN.get(unit, unit)}".rstrip()


def counted(count: int | None) -> str:
    """Return a count of parameters as text: `4.65 M`."""
    if count is None:
        return shown(None)
    factor, letter = _scale_of(count, _WORK[1:])
    return f"{count / factor:.3g} {letter}" if letter else str(count)


def _scale_of(value: float, scales: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    return next((scale for scale in scales if abs(value) >= scale[0]), scales[-1])


def number(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits; all digits before the point are kept."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value)}"
    rounded = f"{value:.0f}"
    return rounded if len(rounded.lstrip("-")) > digits else f"{value:.{digits}g}"
