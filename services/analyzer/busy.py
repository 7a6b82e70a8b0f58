"""Busy time: how long at least one of several intervals ran, counted once where they overlap."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

Ns = npt.NDArray[np.int64]


def busy_ns(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the union of [start_ns, start_ns + duration_ns] of each group: `by`, busy_ns.

    Streams overlap, so a sum counts time twice; the union never is more than the time from the
    first start to the last end. Groups come in the order of `by`; nulls are a group. With no `by`
    all rows are one. About 250 ns a row.
    """
    keys = list(by)
    if not keys:
        return busy_ns(frame.with_columns(pl.lit(0).alias("all")), ["all"]).drop("all")
    rising = frame.select(*keys, "start_ns", "duration_ns").sort(*keys, "start_ns")
    if not rising.height:
        return rising.select(*keys, pl.lit(0, pl.Int64).alias("busy_ns"))
    differs = pl.any_horizontal(pl.col(key).ne_missing(pl.col(key).shift(1)) for key in keys)
    begins = rising.select(differs).to_series().to_numpy().copy()
    begins[0] = True
    start = rising["start_ns"].to_numpy()
    new = _added(start, start + rising["duration_ns"].to_numpy(), begins)
    first = np.flatnonzero(begins)
    return (
        rising[first].select(keys).with_columns(pl.Series("busy_ns", np.add.reduceat(new, first)))
    )


def _added(start: Ns, end: Ns, begins: npt.NDArray[np.bool_]) -> Ns:
    """Return what each interval adds to those of its group that started before it."""
    group = np.cumsum(begins) - 1
    origin = start[begins][group]
    begun, ended = start - origin, end - origin
    # Each group's times lie behind those of the group before, so that one running maximum does.
    lift = group * (int(ended.max()) + 1)
    reached = np.maximum.accumulate(ended + lift)
    before = np.empty_like(reached)
    before[0], before[1:] = 0, reached[:-1]
    added: Ns = np.maximum(ended + lift - np.maximum(begun + lift, before), 0)
    return added
