"""Runs of equal values in a map of classes, as lists for JSON. Pure."""

from typing import Any, cast

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
_MAX_SHARED_LENGTH, _MAX_VALUES = 16, 256
"""Shorter runs share a list with equal ones, in a map whose values span less than this many."""


def runs_of(values: Integers) -> list[list[int]]:
    """Return the runs [value, length] of equal neighbours in `values` (n,); n is at least 1.

    A map of noise has nearly as many runs as pixels, and a list for each would take longer than
    all else: equal short runs are one and the same list, so change none of them.
    """
    starts = np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))
    lengths = np.diff(np.concatenate((starts, [values.size])))
    runs = np.stack([values[starts], lengths], axis=1)
    lowest = int(values.min())
    if int(values.max()) - lowest >= _MAX_VALUES:
        return cast("list[list[int]]", runs.tolist())
    is_short = lengths < _MAX_SHARED_LENGTH
    codes = (runs[is_short, 0] - lowest) * _MAX_SHARED_LENGTH + runs[is_short, 1]
    is_used = np.zeros(_MAX_VALUES * _MAX_SHARED_LENGTH, np.bool_)
    is_used[codes] = True
    used_codes = np.flatnonzero(is_used)
    used_values, used_lengths = np.divmod(used_codes, _MAX_SHARED_LENGTH)
    lists_by_code = np.empty(len(is_used), object)
    lists_by_code[used_codes] = _lists(np.stack([used_values + lowest, used_lengths], axis=1))
    lists = np.empty(len(runs), object)
    lists[is_short] = lists_by_code[codes]
    lists[~is_short] = _lists(runs[~is_short])
    return cast("list[list[int]]", lists.tolist())


def _lists(runs: Integers) -> npt.NDArray[Any]:
    """Return an array of lists, one for each of the runs."""
    lists = np.empty(len(runs), object)
    lists[:] = runs.tolist()
    return lists
