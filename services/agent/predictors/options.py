"""Options of a predictor: what a request gives, checked one by one."""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from services.agent.errors import BadOption


def check_known(given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise BadOption for the first option nobody knows."""
    for name, value in given.items():
        if name not in known:
            raise BadOption(name, value, f"one of {', '.join(known)}")


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def count(given: Mapping[str, Any], name: str, default: int) -> int:
    """Return a whole number from 1 to 1024. Raises BadOption."""
    value = given.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1024:
        raise BadOption(name, value, "a whole number from 1 to 1024")
    return value


def flag(given: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return true or false. Raises BadOption."""
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise BadOption(name, value, "true or false")
    return value


def choice(given: Mapping[str, Any], name: str, allowed: Sequence[str], default: str) -> str:
    """Return one of `allowed`. Raises BadOption."""
    value = given.get(name, default)
    if value not in allowed:
        raise BadOption(name, value, f"one of {', '.join(allowed)}")
    return str(value)
