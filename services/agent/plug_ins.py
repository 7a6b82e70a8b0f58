"""Predictors and collectors of installed packages, by entry point."""

import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

_PATHS = 8


def plug_ins(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a `group` by name; of packages that share one, the first's.

    To read what every package declares takes 20 ms here with 300 packages, and each run asks a
    dozen times. So it is read again only where the path, or a folder on it, has changed: by then a
    package was installed or removed.
    """
    return _declared(group, tuple((folder, _changed_ns(folder)) for folder in sys.path))


def _changed_ns(folder: str) -> int:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=_PATHS)
def _declared(group: str, path: tuple[tuple[str, int], ...]) -> Mapping[str, EntryPoint]:  # noqa: ARG001
    points = list(entry_points(group=group))
    return {point.name: point for point in reversed(points)}
