"""Checks of the arguments of statistics."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.statistics.errors import NotFinite, NoValues, OutOfRange


def sorted_values(values: ArrayLike) -> NDArray[np.float64]:
    """Return a copy of `values` as flat float64, ascending. Raises NoValues, NotFinite."""
    flat = np.asarray(values, np.float64).ravel()
    if flat.size == 0:
        raise NoValues
    finite = np.isfinite(flat)
    if not finite.all():
        raise NotFinite(int(np.argmin(finite)))
    return np.sort(flat)


def require(name: str, actual: float, within: bool, allowed: str) -> None:
    """Raise OutOfRange unless `within`, for the argument `name` with the value `actual`.

    `allowed` says in words which values are allowed.
    """
    if not within:
        raise OutOfRange(name, actual, allowed)


def require_probability(name: str, actual: float) -> None:
    """Raise OutOfRange unless the argument `name` has a value 0 < `actual` < 1."""
    require(name, actual, 0.0 < actual < 1.0, "above 0 and below 1")
