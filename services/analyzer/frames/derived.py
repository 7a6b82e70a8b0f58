"""Values that several tables need of a run, computed once and cached with it."""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

T = TypeVar("T")


class DerivedCache:
    """Values computed from one run's frames, each computed once; they live as long as the run."""

    def __init__(self) -> None:
        """Create an empty cache."""
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the value of `key`, computed at the first call."""
        if key not in self._values:
            self._values[key] = compute()
        return cast("T", self._values[key])


class _HasCache(Protocol):
    @property
    def cache(self) -> DerivedCache:
        """The values computed from it."""
        ...


R = TypeVar("R", bound=_HasCache)


def once_a_run(compute: Callable[[R], T]) -> Callable[[R], T]:
    """Make a function of a run compute its value once for each run, and keep it in its cache."""

    @wraps(compute)
    def cached(run: R) -> T:
        return run.cache.get(compute, lambda: compute(run))

    return cached
