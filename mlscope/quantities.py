"""Numbers with units for people to read: `5.12 ms`, `3.2 MB`. Not for programs to parse. Pure.

Every table, page, sentence and command shows figures by one rule, which `static/js/quantities.js`
repeats. A number has three significant digits, without zeros at its end; whole numbers and all
digits before the point are kept. A share is percent with one decimal. A half is rounded to the even
digit. An estimate has as many digits as its interval needs, and its zeros (`estimate_text`).
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from schemas.analysis import Column

_SIGNIFICANT = 3
_ROUNDED_TO_ONE = 0.9995
"""From here on three digits show one: 999.7 µs is 1 ms."""
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_PREFIXED = {
    **dict.fromkeys(("By", "B", "bytes"), "B"),
    **{unit: unit for unit in ("FLOP", "FLOP/s", "B/s")},
}
_SCALES: Mapping[str, tuple[tuple[float, str], ...]] = {
    "ns": _TIMES,
    "s": tuple((factor / 1e9, unit) for factor, unit in _TIMES),
    **{
        unit: tuple((factor, prefix + name) for factor, prefix in _PREFIXES)
        for unit, name in _PREFIXED.items()
    },
}
_SHARES = ("share", "probability", "of_")
_PARTS = (
    "gain",
    "gain_low",
    "gain_high",
    "change",
    "change_low",
    "change_high",
    "counted",
)


def unit_of(column: Column) -> str:
    """Return the unit in which a column is shown; `share` stands for percent."""
    if column.type not in ("int", "float"):
        return ""
    name = column.name
    is_share = name.startswith(_SHARES) or name.endswith("_share") or name in _PARTS
    is_share = is_share and column.type == "float" and column.unit in ("", "1")
    return "share" if is_share else column.unit


_UNITS_SHOWN: Mapping[str, str] = MappingProxyType(
    {"FLOP/By": "FLOP/B", "1/s": "/s", "1": "", "Cel": "°C"}
)
_MONEY: Mapping[str, str] = MappingProxyType({"USD": "", "USD/h": "/h"})
"""Units whose sign stands before the number, and what follows it."""
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
    if unit in _MONEY:
        return f"${number(value)}{_MONEY[unit]}"
    return f"{number(value)} {_UNITS_SHOWN.get(unit, unit)}".rstrip()


class EstimateText(NamedTuple):
    """An estimate as two texts: its amount with the unit, and what is known of its interval."""

    amount: str
    interval: str


def estimate_text(
    value: float, low: float | None, high: float | None, unit: str = ""
) -> EstimateText:
    """Return an estimate and its interval as texts: `12.3 ms` and `12.1 … 12.6`.

    Every place that shows an estimate asks here, so that a bound that is not known is nowhere
    passed over: with one end alone the interval is `12.1 … unknown` or `unknown … 12.6`, with none
    it is `no interval`. `value`, `low` and `high` are in `unit` ("share": percent) and are shown in
    the same scale, the value with three digits (a share: one decimal) or as many as an interval
    with both ends needs.
    """
    if not math.isfinite(value):
        return EstimateText(shown(None), "no interval")
    factor, name = (0.01, "%") if unit == "share" else (1.0, f" {_UNITS_SHOWN.get(unit, unit)}")
    if unit in _SCALES:
        factor, prefixed = _scale_of(value, _SCALES[unit])
        name = f" {prefixed}"
    scaled = value / factor
    ends = [math.nan if end is None else end / factor for end in (low, high)]
    is_closed = all(map(math.isfinite, ends))
    distances = [abs(end - scaled) for end in ends] if is_closed else []
    least = 1 if unit == "share" else _SIGNIFICANT - 1 - _magnitude(scaled)
    decimals = _decimals_of(scaled, distances, least)
    low_text, high_text = (f"{end:z.{decimals}f}" if math.isfinite(end) else "" for end in ends)
    amount = f"{scaled:z.{decimals}f}{name}".rstrip()
    if unit in _MONEY:
        amount = f"${scaled:z.{decimals}f}{_MONEY[unit]}"
    return EstimateText(amount, interval_text(low_text, high_text))


def interval_text(low: str, high: str) -> str:
    """Return an interval by the texts of its ends; `low` or `high` is '' where it is not known."""
    return f"{low or 'unknown'} … {high or 'unknown'}" if low or high else "no interval"


def estimated(value: float, low: float | None, high: float | None, unit: str = "") -> str:
    """Return an estimate with its interval in brackets: `12.3 ms (12.1 … 12.6)`.

    `value`, `low`, `high` and `unit` are as for `estimate_text`.
    """
    amount, interval = estimate_text(value, low, high, unit)
    return f"{amount} ({interval})"


def time_scale(size_ns: float) -> tuple[float, str]:
    """Return the unit in which a time of this size is shown: its length in ns, and its name."""
    return _scale_of(size_ns, _TIMES)


def _decimals_of(value: float, distances: Sequence[float], least: int) -> int:
    """Return the decimals of `value`: at `least` some, or those of one digit of its least distance.

    There are never more than five digits before and after the point together.
    """
    # A distance of rounding errors needs no decimals.
    distance = min((size for size in distances if size > 5e-5 * abs(value)), default=0.0)
    places = [0, *([least] if value else []), *([-_magnitude(distance)] if distance else [])]
    return max(0, min(max(places), 4 - _magnitude(max(abs(value), distance))))


def _magnitude(size: float) -> int:
    """Return the power of ten of a size without its sign, 0 for 0."""
    return math.floor(math.log10(abs(size))) if size else 0


_AGES = ((86_400.0, "day", "days"), (3600.0, "hour", "hours"), (60.0, "minute", "minutes"))


def age_text(age_s: float) -> str:
    """Return how long ago something was: `3 minutes ago`; below a minute `just now`."""
    return f"{lapse_text(age_s)} ago" if age_s >= _AGES[-1][0] else "just now"


def lapse_text(lapse_s: float) -> str:
    """Return a time between two events: `3 minutes`, `20 s`; parts of a unit do not count."""
    for length_s, singular, plural in _AGES:
        if lapse_s >= length_s:
            count = int(lapse_s / length_s)
            return f"{count} {singular if count == 1 else plural}"
    return f"{int(lapse_s)} s"


def counted(count: int | None) -> str:
    """Return a count of parameters as text: `4.65 M`."""
    if count is None:
        return shown(None)
    factor, letter = _scale_of(count, _PREFIXES)
    return f"{number(count / factor)} {letter}".rstrip()


def _scale_of(value: float, scales: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """Return the largest of `scales` (size, unit) of which a value, once rounded, has one."""
    return next((scale for scale in scales if abs(value) >= _ROUNDED_TO_ONE * scale[0]), scales[-1])


def number(value: float) -> str:
    """Return a number with three significant digits; all digits before the point are kept."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value)}"
    rounded = f"{value:.0f}"
    is_long = len(rounded.lstrip("-")) > _SIGNIFICANT
    return rounded if is_long else f"{value:.{_SIGNIFICANT}g}"
