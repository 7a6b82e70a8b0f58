"""ONNX Runtime's options: checked, with what they come to when not given."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from services.agent.errors import BadOption
from services.agent.predictors.options import check_known, choice, count, flag, usable_cores

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
    check_known(given, KNOWN)
    threads = count(given, "intra_threads", count(given, "threads", usable_cores()))
    return Options(
        threads=threads,
        inter_threads=count(given, "inter_threads", 1),
        graph_optimization=choice(given, "graph_optimization", OPTIMIZATIONS, "all"),
        mode=choice(given, "mode", MODES, "sequential"),
        spinning=flag(given, "spinning", default=True),
        provider=_provider(given, device, available),
    )


def _provider(given: Mapping[str, Any], device: str, available: Sequence[str]) -> str:
    wanted = str(given.get("provider") or ("cuda" if device == "gpu" else device or "cpu"))
    name = PROVIDERS.get(wanted.lower(), wanted)
    if name not in available:
        raise BadOption("provider", wanted, f"one of {', '.join(available)}")
    return name
