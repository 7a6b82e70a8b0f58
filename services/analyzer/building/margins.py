"""Estimates with their 95% interval, and differences of two such estimates."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mlscope.statistics import Estimate, blocks_interval, ratio_interval
from services.analyzer.building.grouped import trimmed


@dataclass(frozen=True, slots=True)
class Margin:
    """An estimate with the ends of its 95% interval; None where unknown."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    def cells(self, name: str) -> dict[str, float | None]:
        """Return the cells of the columns that `estimate_columns(name)` returns."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


UNKNOWN = Margin()


def trimmed_margins(frame: pl.DataFrame, by: Sequence[str], value: str) -> dict[Any, Margin]:
    """Return each group's trimmed mean of the column `value`, by the group's key.

    `by` are the columns of `frame` that group it; the key is a cell, or a tuple for several `by`.
    Groups without a value are left out.
    """
    statistics = trimmed(frame, by, value).drop_nulls("mid").select(*by, "mid", "low", "high")
    return {
        (row[0] if len(by) == 1 else row[:-3]): Margin(*row[-3:]) for row in statistics.iter_rows()
    }


def trimmed_margin(values: Sequence[float] | npt.NDArray[Any]) -> Margin:
    """Return the trimmed mean of values (20% off each end); one value has no interval."""
    numbers = np.asarray(values, np.float64)
    frame = pl.DataFrame({"group": np.zeros(numbers.size, np.int64), "value": numbers})
    return trimmed_margins(frame, ["group"], "value").get(0, UNKNOWN)


def trimmed_margins_by_key(values: Mapping[Any, Iterable[float]]) -> dict[Any, Margin]:
    """Return `trimmed_margin` of each key's values, in the order of the keys."""
    keys = list(values)
    pairs = [(n, float(value)) for n, key in enumerate(keys) for value in values[key]]
    frame = pl.DataFrame(pairs, {"group": pl.Int64, "value": pl.Float64}, orient="row")
    return {keys[n]: margin for n, margin in trimmed_margins(frame, ["group"], "value").items()}


def mean_margin(values: npt.NDArray[Any]) -> Margin:
    """Return the mean of values with Student's t; the low end is below 0 only where a value is."""
    if not len(values):
        return UNKNOWN
    interval = blocks_interval(values)
    low = interval.low
    if low is not None and values.min() >= 0:
        low = max(low, 0.0)
    return Margin(float(np.mean(values)), low, interval.high)


def share_margin(shares: npt.NDArray[Any]) -> Margin:
    """Return the `mean_margin` of shares from 0, which do not exceed 1 on average."""
    margin = mean_margin(shares)
    ends = (margin.value, margin.low, margin.high)
    return Margin(*(None if end is None else min(1.0, end) for end in ends))


def ratio(above: Margin, below: Margin) -> Margin:
    """Return `above` / `below` with the interval of `mlscope.statistics.ratio_interval`.

    UNKNOWN where either is unknown or not above 0.
    """
    if not above.value or not below.value or min(above.value, below.value) <= 0.0:
        return UNKNOWN
    interval = ratio_interval(
        Estimate(above.value, above.low, above.high), Estimate(below.value, below.low, below.high)
    )
    return Margin(above.value / below.value, interval.low, interval.high)


def per_second(time_ns: Margin, amount: float = 1.0) -> Margin:
    """Return how many a second there are (1/s), of which `amount` take `time_ns`."""

    def rate(spent_ns: float | None) -> float | None:
        return amount * 1e9 / spent_ns if spent_ns else None

    return Margin(rate(time_ns.value), rate(time_ns.high), rate(time_ns.low))


def margin_in(row: Mapping[str, Any], name: str) -> Margin:
    """Return the estimate in the columns `name`, `name`_low and `name`_high of a row."""
    return Margin(row[name], row[f"{name}_low"], row[f"{name}_high"])


def difference(minuend: Margin, subtrahend: Margin) -> Margin:
    """Return `minuend` - `subtrahend` with the interval of Zou and Donner (2008).

    With d the difference of a and b: low = d - sqrt((a - a.low)^2 + (b.high - b)^2), and high
    likewise. The formula assumes independence, so the interval is too wide, not too narrow, where
    both rise together. UNKNOWN where either is unknown.
    """
    if minuend.value is None or subtrahend.value is None:
        return UNKNOWN
    value = minuend.value - subtrahend.value
    if None in (minuend.low, minuend.high, subtrahend.low, subtrahend.high):
        return Margin(value)
    low = math.hypot(
        minuend.value - (minuend.low or 0.0), (subtrahend.high or 0.0) - subtrahend.value
    )
    high = math.hypot(
        (minuend.high or 0.0) - minuend.value, subtrahend.value - (subtrahend.low or 0.0)
    )
    return Margin(value, value - low, value + high)


def total(first: Margin, second: Margin) -> Margin:
    """Return `first` + `second`, with the interval of the `difference` from -`second`."""
    ends = (second.value, second.high, second.low)
    return difference(first, Margin(*(None if end is None else -end for end in ends)))
