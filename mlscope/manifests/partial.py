"""A manifest with faults, without its faulty parts, so that the others are checked too. Pure."""

import copy
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from schemas.manifest import Manifest

Path = tuple[str | int, ...]

_STAND_INS: Mapping[str, Any] = MappingProxyType(
    {
        "name": "unnamed",
        "version": "1.0.0",
        "framework": "remote",
        "inputs": [],
        "outputs": [],
        "type": "raw",
        "path": "file",
        "sha256": "00",
        "address": "file",
        "reader": "files",
    }
)
"""In place of a faulty field that a manifest must have."""
_MOST_TRIES = 4
"""A part that is removed may uncover the lack of another; each try removes all that are known."""
_MOST_ROUNDS = 16
"""As many faults of one list are reported."""


def errors_in(
    value: Mapping[str, Any], parse: Callable[[Mapping[str, Any]], Manifest]
) -> Iterator[tuple[Path, ErrorDetails]]:
    """Yield what pydantic finds wrong with a `value`, each with its path.

    `parse` raises its ValidationError. A list of a message ends at its first fault: here the rest
    of the list is parsed after it, as long as there are faults and up to `_MOST_ROUNDS` times.
    """
    remainder: Any = _unshared(value)
    counts: dict[Path, int] = {}  # of entries that were taken off the lists of `remainder`
    reported_paths: set[Path] = set()
    for _ in range(_MOST_ROUNDS):
        errors = _errors_of(remainder, parse)
        places = [entry["loc"][1:] for entry in errors]
        paths = [_whole_path(remainder, place, counts) for place in places]
        for (path, _), entry in zip(paths, errors, strict=True):
            if path not in reported_paths and not _is_of_cut(path, entry, counts):
                yield path, entry
        reported_paths |= {path for path, _ in paths}
        pairs = zip(paths, places, strict=True)
        ends = {path[:length]: place[:length] for (path, length), place in pairs if length}
        if not ends:
            return
        _cut_lists(remainder, ends, counts)


def _unshared(value: Any) -> Any:
    """Return a copy, in which what aliases in YAML share is there for each of them."""
    if isinstance(value, Mapping):
        return {name: _unshared(part) for name, part in value.items()}
    return [_unshared(part) for part in value] if isinstance(value, list) else value


def _errors_of(
    value: Mapping[str, Any], parse: Callable[[Mapping[str, Any]], Manifest]
) -> list[ErrorDetails]:
    try:
        parse(value)
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def _is_of_cut(path: Path, entry: ErrorDetails, counts: Mapping[Path, int]) -> bool:
    """Tell whether something may be wrong only since entries were taken off a list."""
    is_around = any(cut[: len(path)] == path for cut in counts)
    return is_around or (entry["type"] == "missing" and path[:-1] in counts)


def _whole_path(remainder: Any, place: Path, counts: Mapping[Path, int]) -> tuple[Path, int]:
    """Return the path of a `place` in the `remainder`, and how long it is to a list's entry.

    The innermost list counts; without one, the length is 0.
    """
    path: Path = ()
    length, part = 0, remainder
    for step in place:
        is_entry = isinstance(part, list) and isinstance(step, int) and step < len(part)
        length = len(path) + 1 if is_entry else length
        part = _child(part, step)
        path = (*path, step + counts.get(path, 0) if isinstance(step, int) else step)
    return path, length


def _cut_lists(remainder: Any, ends: Mapping[Path, Path], counts: dict[Path, int]) -> None:
    """Take off lists what `ends` at a fault: places in the `remainder` by the paths of entries."""
    for path, place in ends.items():
        # What follows in a list within an entry is parsed before what follows the entry.
        if not any(other_path[: len(path)] == path for other_path in ends if other_path != path):
            index = int(place[-1])
            del reduce(_child, place[:-1], remainder)[: index + 1]
            counts[path[:-1]] = counts.get(path[:-1], 0) + index + 1


def without_faults(
    value: Mapping[str, Any],
    parse: Callable[[Mapping[str, Any]], Manifest],
    faulty: Collection[Path],
) -> tuple[Manifest | None, frozenset[Path]]:
    """Return what `parse` makes of a `value` without its `faulty` parts, and the changed parts.

    `parse` raises pydantic's ValidationError. None where too little is left.
    """
    partial: Any = copy.deepcopy(dict(value))
    changed = {_remove(partial, path) for path in faulty if path}
    for _ in range(_MOST_TRIES):
        try:
            return parse(partial), frozenset(changed)
        except ValidationError as error:
            paths = [tuple(entry["loc"][1:]) for entry in error.errors(include_url=False)]
            changed |= {_remove(partial, path) for path in paths if path}
    return None, frozenset(changed)


def _remove(root: Any, path: Path) -> Path:
    """Remove what stands at a `path`, or give it a stand-in, and return the path that changed.

    An entry of a list takes its list along, as later ones would move.
    """
    parent, reached = root, 0
    while reached < len(path) - 1:
        inner = _child(parent, path[reached])
        if not isinstance(inner, dict | list):
            break
        parent, reached = inner, reached + 1
    name = path[reached]
    if isinstance(parent, list):
        return _remove(root, path[:reached])
    parent.pop(name, None)
    if name in _STAND_INS and reached == len(path) - 1:
        parent[name] = copy.deepcopy(_STAND_INS[str(name)])
    return path[: reached + 1]


def _child(parent: Any, step: str | int) -> Any:
    """Return the part of a map or list at one step of a path; None without one."""
    if isinstance(parent, dict):
        return parent.get(step)
    is_entry = isinstance(parent, list) and isinstance(step, int) and step < len(parent)
    return parent[step] if is_entry else None


def is_touched(path: Path, changed: Collection[Path]) -> bool:
    """Tell whether what stands at a `path` is one of the `changed` parts, in one, or around one."""
    return any(path[: len(part)] == part[: len(path)] for part in changed)
