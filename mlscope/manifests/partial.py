"""A manifest with faults, without its faulty parts, so that the others can be checked. Pure."""

import copy
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

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
    return parent[step] if isinstance(step, int) and step < len(parent) else None


def is_touched(path: Path, changed: Collection[Path]) -> bool:
    """Tell whether what stands at a `path` is one of the `changed` parts, in one, or around one."""
    return any(path[: len(part)] == part[: len(path)] for part in changed)
