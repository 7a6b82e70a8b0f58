"""A figure with its margin: means with their 95 % interval, and differences of two such."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mlscope.statistics import blocks_interval
from services.analyzer.grouped import trimmed


@dataclass(frozen=True, slots=True)
class Margin:
    """An estimate with the ends of its 95 % interval; None is not known."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    def cells(self, name: str) -> dict[str, float | None]:
        """Return the cells of the columns that `estimate(name)` makes."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


UNKNOWN = Margin()


def trimmed_margins(frame: pl.DataFrame, by: Sequence[str], value: str) -> dict[Any, Margin]:
    """Return each group's trimmed mean (`grouped.trimmed`), by its key: a tuple where `by` is."""
    found = trimmed(frame, by, value).drop_nulls("mid").select(*by, "mid", "low", "high")
    return {(row[0] if len(by) == 1 else row[:-3]): Margin(*row[-3:]) for row in found.iter_rows()}


def trimmed_margin(values: Sequence[float] | npt.NDArray[Any]) -> Margin:
    """Return the trimmed mean of values (20 % off each end); of one there is no interval."""
    told = np.asarray(values, np.float64)
    frame = pl.DataFrame({"group": np.zeros(told.size, np.int64), "value": told})
    return trimmed_margins(frame, ["group"], "value").get(0, UNKNOWN)


def each_trimmed(values: Mapping[Any, Iterable[float]]) -> dict[Any, Margin]:
    """Return `trimmed_margin` of each key's values, in the order of the keys."""
    keys = list(values)
    pairs = [(n, float(value)) for n, key in enumerate(keys) for value in values[key]]
    frame = pl.DataFrame(pairs, {"group": pl.Int64, "value": pl.Float64}, orient="row")
    return {keys[n]: margin for n, margin in trimmed_margins(frame, ["group"], "value").items()}


def mean_margin(values: npt.NDArray[Any]) -> Margin:
    """Return the mean of values with Student's t; it reaches below 0 only where a value does."""
    if not len(values):
        return UNKNOWN
    interval = blocks_interval(values)
    low = interval.low
    if low is not None and values.min() >= 0:
        low = max(low, 0.0)
    return Margin(float(np.mean(values)), low, interval.high)


def difference(more: Margin, less: Margin) -> Margin:
    """Return more - less, each end by the square root of both's squared margins.

    Zou and Donner's (2008): low = d - sqrt((more - more.low)^2 + (less.high - less)^2), high alike.
    It takes the two for independent, so it is wide rather than narrow where they rise together.
    """
    if more.value is None or less.value is None:
        return UNKNOWN
    between = more.value - less.value
    if None in (more.low, more.high, less.low, less.high):
        return Margin(between)
    low = math.hypot(more.value - (more.low or 0.0), (less.high or 0.0) - less.value)
    high = math.hypot((more.high or 0.0) - more.value, less.value - (less.low or 0.0))
    return Margin(between, between - low, between + high)
