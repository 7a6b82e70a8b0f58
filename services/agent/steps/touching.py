"""Groups of touching pixels in a mask. Pure."""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.intp]


def touching(mask: npt.NDArray[np.bool_]) -> list[tuple[Integers, Integers]]:
    """Return the rows and columns of each group of true pixels (h, w) that touch, ordered by rows.

    Pixels touch at their sides and corners. The groups are in the order of their first pixels.
    """
    # A false pixel at both ends of each row keeps runs of true pixels within one row.
    padded = np.zeros((mask.shape[0], mask.shape[1] + 2), np.int8)
    padded[:, 1:-1] = mask
    starts, ends = np.flatnonzero(np.diff(padded.ravel())).reshape(-1, 2).T + 1
    if not len(starts):
        return []
    # The runs in the row above that each run touches are neighbours: from `first`, a `count`.
    first = np.searchsorted(ends, starts - padded.shape[1], side="left")
    count = np.searchsorted(starts, ends - padded.shape[1], side="right") - first
    lower = np.repeat(np.arange(len(starts)), count)
    upper = np.arange(len(lower)) + np.repeat(first - np.cumsum(count) + count, count)
    groups = _groups(len(starts), lower, upper)
    order = np.argsort(groups, kind="stable")
    lengths = (ends - starts)[order]
    before = np.cumsum(lengths) - lengths
    pixels = np.arange(lengths.sum()) + np.repeat(starts[order] - before, lengths)
    rows, columns = np.divmod(pixels, padded.shape[1])
    cuts = before[np.flatnonzero(np.diff(groups[order])) + 1]
    return list(zip(np.split(rows, cuts), np.split(columns - 1, cuts), strict=True))


def _groups(count: int, lower: Integers, upper: Integers) -> Integers:
    """Return for each of `count` runs the first run of its group; `lower` touch `upper` ones.

    Every group takes the lowest number that a neighbour has, until none has a lower one (Zhang et
    al. 2020, FastSV).
    """
    first = np.arange(count)
    while True:
        low, high = np.minimum(first[lower], first[upper]), np.maximum(first[lower], first[upper])
        if np.array_equal(low, high):
            return first
        np.minimum.at(first, high, low)
        while not np.array_equal(first, shorter := first[first]):
            first = shorter
