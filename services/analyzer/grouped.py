"""Statistics of many groups at once: one value a group and query, never a loop over groups."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mlscope.statistics.distributions import student_quantile
from mlscope.statistics.summary import TRIM, trimmed_count

Reals = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

CONFIDENCE = 0.95

_STATISTICS = ("mid", "low", "high", "min", "q1", "median", "q3", "max")
_MOST = 1 << 62


def numbered(frame: pl.DataFrame, by: Sequence[str]) -> tuple[pl.DataFrame, Codes]:
    """Return the groups of a frame, a row each, and for each row of the frame its group's number.

    By one column of whole numbers they rise, null last; by others they come as they first appear.
    With no `by` all rows are one group, with no rows there is none.
    """
    if not by:
        return pl.DataFrame(height=min(frame.height, 1)), np.zeros(frame.height, np.int64)
    if len(by) == 1 and frame.schema[by[0]].is_integer():
        groups = frame.select(by[0]).unique().sort(by[0], nulls_last=True)
    else:
        groups = frame.select(by).unique(maintain_order=True)
    numbers = frame.select(by).join(
        groups.with_row_index("number"),
        on=list(by),
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return groups, numbers["number"].cast(pl.Int64).to_numpy()


def trimmed(frame: pl.DataFrame, by: Sequence[str], value: str) -> pl.DataFrame:
    """Return each group's count, trimmed mean, its interval, and the five numbers of its box.

    `by`, n, mid, low, high, min, q1, median, q3, max; groups as `numbered` has them. The mean is
    without the lowest and highest 20 % (`mlscope.statistics.trimmed_mean`, which it equals); its
    interval at 95 % is Tukey and McLaughlin's (1963): the winsorised standard deviation over
    (1 - 2 * 0.2) * sqrt(n), Student's t with the values kept less one degrees of freedom. Of three
    values the mean is their median, and its interval as wide as that of their plain mean. It is
    null below 2 values, and reaches below 0 only where some value does. Quartiles are linear.
    """
    groups, codes = numbered(frame, by)
    told = frame[value].is_not_null().to_numpy()
    values = frame[value].drop_nulls().to_numpy()
    code, rising = _sorted(codes[told], values)
    return pl.concat([groups, _summarised(code, rising, groups.height)], how="horizontal")


def _sorted(codes: Codes, values: npt.NDArray[Any]) -> tuple[Codes, npt.NDArray[Any]]:
    """Return values group by group, rising within each."""
    if values.size and values.dtype.kind == "i":
        least = int(values.min())
        width = int(values.max()) - least + 1
        # One number to sort is five times as fast as two.
        if width * (int(codes.max()) + 1) < _MOST:
            both = np.sort(codes * width + (values - least))
            return both // width, both % width + least
    order = np.lexsort((values, codes))
    return codes[order], values[order]


def _summarised(codes: Codes, values: npt.NDArray[Any], groups: int) -> pl.DataFrame:
    n = np.bincount(codes, minlength=groups).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(n)[:-1]]) if groups else np.zeros(0, np.int64)
    found = np.full((len(_STATISTICS), groups), np.nan)
    # What is dropped depends on the count alone, and there are few counts.
    for count in np.unique(n[n > 0]):
        same = np.flatnonzero(n == count)
        block = values[starts[same][:, None] + np.arange(count)].astype(np.float64)
        found[:, same] = [*_trimmed_of(block), *_box_of(block)]
    reals = [pl.Series(name, found[at]).fill_nan(None) for at, name in enumerate(_STATISTICS)]
    return pl.DataFrame([pl.Series("n", n), *reals])


def _trimmed_of(rising: Reals) -> tuple[Reals, Reals, Reals]:
    """Return mean, low and high of each row, shape [groups, n]."""
    count = rising.shape[1]
    dropped = 1 if count == 3 else trimmed_count(count, TRIM)
    kept = count - 2 * dropped
    mid = rising[:, dropped : count - dropped].mean(axis=1)
    if count < 2:
        return mid, np.full(len(mid), np.nan), np.full(len(mid), np.nan)
    if kept < 2:
        # From least to most holds a median of three in 75 %, t s / sqrt(3) in 94.8 % (simulated).
        dropped, kept = 0, count
    spread = rising.clip(rising[:, dropped, None], rising[:, count - 1 - dropped, None])
    error = spread.std(axis=1, ddof=1) * np.sqrt(count) / kept
    reach = student_quantile((1.0 + CONFIDENCE) / 2.0, kept - 1) * error
    low = np.where(rising[:, 0] < 0.0, mid - reach, np.maximum(mid - reach, 0.0))
    return mid, low, mid + reach


def _box_of(rising: Reals) -> list[Reals]:
    """Return least, quartiles and most of each row."""
    last = rising.shape[1] - 1
    found = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = int(share * last)
        part = share * last - at
        above = rising[:, min(at + 1, last)]
        found.append(rising[:, at] * (1.0 - part) + above * part)
    return found
