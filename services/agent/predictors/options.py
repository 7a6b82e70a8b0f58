"""Check the options that a request gives a predictor, one by one.

Each function takes the `requested` options by name, and the `name` of the one it reads.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from services.agent.errors import BadOption


def check_known(requested: Mapping[str, Any], names: Collection[str]) -> None:
    """Raise BadOption for the first requested option that is not in `names`."""
    for name, value in requested.items():
        if name not in names:
            raise BadOption(name, value, f"one of {', '.join(names)}")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def count(requested: Mapping[str, Any], name: str, default: int) -> int:
    """Return `requested[name]`, a whole number from 1 to 1024, or the `default`.

    Raises BadOption.
    """
    value = requested.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1024:
        raise BadOption(name, value, "a whole number from 1 to 1024")
    return value


def flag(requested: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return `requested[name]`, true or false, or the `default`. Raises BadOption."""
    value = requested.get(name, default)
    if not isinstance(value, bool):
        raise BadOption(name, value, "true or false")
    return value


def choice(requested: Mapping[str, Any], name: str, allowed: Sequence[str], default: str) -> str:
    """Return `requested[name]`, one of the `allowed` values, or the `default`.

    Raises BadOption.
    """
    value = requested.get(name, default)
    if value not in allowed:
        raise BadOption(name, value, f"one of {', '.join(allowed)}")
    return str(value)
