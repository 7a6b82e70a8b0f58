"""Import paths of the builders that manifests name, and which ones an owner allows. Pure."""

from collections.abc import Iterable

_MOVED_FROM = "services.agent.networks"
_MOVED_TO = "services.agent.predictors.networks"


def current_path(path: str) -> str:
    """Return the import path of a builder or module today.

    Manifests, logs and plans of release 0.1 have the networks below `services.agent.networks`. A
    manifest's text can't change under its version. Release 0.3 drops the old path.
    """
    is_moved = path == _MOVED_FROM or path.startswith(f"{_MOVED_FROM}.")
    return path.replace(_MOVED_FROM, _MOVED_TO, 1) if is_moved else path


def is_allowed(builder: str, allowed: Iterable[str]) -> bool:
    """Return whether the path of a `builder` is one of the `allowed` paths, or lies below one."""
    path = current_path(builder)
    roots = (current_path(root) for root in allowed)
    return any(path == root or path.startswith(f"{root}.") for root in roots)
