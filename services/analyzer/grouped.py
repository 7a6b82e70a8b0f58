"""Statistics of many groups at once: one value a group and query, never a loop over groups."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mlscope.statistics.distributions import student_quantile
from mlscope.statistics.summary import TRIM, trimmed_count

Reals = npt.NDArray[np.float64]

CONFIDENCE = 0.95


def trimmed(frame: pl.DataFrame, by: Sequence[str], value: str) -> pl.DataFrame:
    """Return each group's count, trimmed mean and its interval: `by`, n, mid, low, high.

    Groups come in the order in which they first appear; with no `by` all rows are one. The mean is
    without the lowest and highest 20 % (`mlscope.statistics.trimmed_mean`, which it equals); its
    interval at 95 % is Tukey and McLaughlin's (1963): the winsorised standard deviation over
    (1 - 2 * 0.2) * sqrt(n), Student's t with the values kept less one degrees of freedom. It is
    null below 2 values, and reaches below 0 only where some value does.
    """
    if not by:
        numbered = frame.select(pl.lit(0, pl.UInt32).alias("group"), value)
        groups = pl.DataFrame({"group": [0]} if frame.height else {"group": []})
    else:
        groups = frame.select(by).unique(maintain_order=True).with_row_index("group")
        numbered = frame.join(
            groups, on=list(by), how="left", nulls_equal=True, maintain_order="left"
        ).select("group", value)
    rising = numbered.drop_nulls().sort("group", value)
    found = _summarised(rising["group"].to_numpy(), rising[value].to_numpy(), groups.height)
    return pl.concat([groups.drop("group"), found], how="horizontal")


def _summarised(
    group: npt.NDArray[np.uint32], values: npt.NDArray[Any], groups: int
) -> pl.DataFrame:
    """Return n, mid, low and high of values that lie group by group, rising within each."""
    n = np.bincount(group, minlength=groups).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(n)[:-1]]) if groups else np.zeros(0, np.int64)
    told = n > 0
    mid, low, high = (np.full(groups, np.nan) for _ in range(3))
    # Trim and quantile depend on the count alone, and there are few counts.
    for count in np.unique(n[told]):
        same = np.flatnonzero(n == count)
        block = values[starts[same][:, None] + np.arange(count)].astype(np.float64)
        mid[same], low[same], high[same] = _of_block(block)
    columns = {"mid": mid, "low": low, "high": high}
    reals = [pl.Series(name, cells).fill_nan(None) for name, cells in columns.items()]
    return pl.DataFrame([pl.Series("n", n), *reals])


def _of_block(rising: Reals) -> tuple[Reals, Reals, Reals]:
    """Return mean, low and high of each row, shape [groups, n]."""
    count = rising.shape[1]
    dropped = 1 if count == 3 else trimmed_count(count, TRIM)
    kept = count - 2 * dropped
    mid = rising[:, dropped : count - dropped].mean(axis=1)
    if count < 2:
        return mid, np.full(len(mid), np.nan), np.full(len(mid), np.nan)
    spread = rising.clip(rising[:, dropped, None], rising[:, count - 1 - dropped, None])
    error = spread.std(axis=1, ddof=1) * np.sqrt(count) / kept
    if kept < 2:
        # A median of three: its interval is what there is, from the least to the most.
        return mid, rising[:, 0], rising[:, -1]
    reach = student_quantile((1.0 + CONFIDENCE) / 2.0, kept - 1) * error
    low = np.where(rising[:, 0] < 0.0, mid - reach, np.maximum(mid - reach, 0.0))
    return mid, low, mid + reach
