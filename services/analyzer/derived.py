"""What several tables need of a run is made once and kept with it."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from services.analyzer.frames import Run

T = TypeVar("T")


def once(run: Run, make: Callable[[Run], T]) -> T:
    """Return `make(run)`, made at the first asking; it lives as long as the run's frames."""
    # As functools.cached_property does, but for functions of other modules.
    kept: dict[Callable[[Run], Any], Any] = run.__dict__.setdefault("_derived", {})
    if make not in kept:
        kept[make] = make(run)
    return cast("T", kept[make])
