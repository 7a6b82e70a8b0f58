"""Checks what the statistics are given."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.statistics.errors import NotFinite, NoValues, OutOfRange


def sorted_values(values: ArrayLike) -> NDArray[np.float64]:
    """Copy `values` as float64, flat and rising; raises NoValues or NotFinite."""
    flat = np.asarray(values, np.float64).ravel()
    if flat.size == 0:
        raise NoValues
    finite = np.isfinite(flat)
    if not finite.all():
        raise NotFinite(int(np.argmin(finite)))
    return np.sort(flat)


def require(name: str, found: float, within: bool, allowed: str) -> None:
    """Raise OutOfRange unless `within`."""
    if not within:
        raise OutOfRange(name, found, allowed)


def require_probability(name: str, found: float) -> None:
    """Raise OutOfRange unless 0 < `found` < 1."""
    require(name, found, 0.0 < found < 1.0, "above 0 and below 1")
