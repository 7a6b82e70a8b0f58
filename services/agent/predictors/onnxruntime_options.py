"""ONNX Runtime's options: checked, with what they come to when not given."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from services.agent.errors import BadOption

OPTIMIZATIONS = ("disable", "basic", "extended", "all")
MODES = ("sequential", "parallel")
KNOWN = (
    *("threads", "intra_threads", "inter_threads"),
    *("graph_optimization", "mode", "spinning", "provider"),
)
PROVIDERS: Mapping[str, str] = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
}


@dataclass(frozen=True, slots=True)
class Options:
    """What a session is opened with."""

    #: threads inside one operator
    threads: int
    #: operators side by side, with `mode` parallel
    inter_threads: int
    graph_optimization: str
    mode: str
    #: idle threads of an operator wait busily, which is ORT's own default
    spinning: bool
    provider: str

    def as_given(self) -> dict[str, Any]:
        """Return the effective options by name."""
        return asdict(self)


def options_of(given: Mapping[str, Any], device: str, available: Sequence[str]) -> Options:
    """Return the options of a request.

    `device` names the provider when no option does; `available` are ONNX Runtime's provider
    names here. Raises BadOption.
    """
    for name, value in given.items():
        if name not in KNOWN:
            raise BadOption(name, value, f"one of {', '.join(KNOWN)}")
    threads = _count(given, "intra_threads", _count(given, "threads", usable_cores()))
    return Options(
        threads=threads,
        inter_threads=_count(given, "inter_threads", 1),
        graph_optimization=_choice(given, "graph_optimization", OPTIMIZATIONS, "all"),
        mode=_choice(given, "mode", MODES, "sequential"),
        spinning=_flag(given, "spinning", default=True),
        provider=_provider(given, device, available),
    )


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _provider(given: Mapping[str, Any], device: str, available: Sequence[str]) -> str:
    wanted = str(given.get("provider") or ("cuda" if device == "gpu" else device or "cpu"))
    name = PROVIDERS.get(wanted.lower(), wanted)
    if name not in available:
        raise BadOption("provider", wanted, f"one of {', '.join(available)}")
    return name


def _count(given: Mapping[str, Any], name: str, default: int) -> int:
    value = given.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1024:
        raise BadOption(name, value, "a whole number from 1 to 1024")
    return value


def _flag(given: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise BadOption(name, value, "true or false")
    return value


def _choice(given: Mapping[str, Any], name: str, allowed: Sequence[str], default: str) -> str:
    value = given.get(name, default)
    if value not in allowed:
        raise BadOption(name, value, f"one of {', '.join(allowed)}")
    return str(value)
