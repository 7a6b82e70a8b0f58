"""Check ONNX Runtime's options and fill in the defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from services.agent.errors import BadOption
from services.agent.predictors.options import check_known, choice, count, flag, usable_cores

OPTIMIZATIONS = ("disable", "basic", "extended", "all")
MODES = ("sequential", "parallel")
PROVIDERS: Mapping[str, str] = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
}


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a session is opened with."""

    #: threads inside one operator
    threads: int
    #: operators that run at once, with `mode` parallel
    inter_threads: int
    graph_optimization: str
    mode: str
    #: whether idle threads of an operator wait busily, which is ORT's own default
    spinning: bool
    provider: str

    def by_name(self) -> dict[str, Any]:
        """Return the effective options by name."""
        return asdict(self)


def options_of(requested: Mapping[str, Any], device: str, available: Sequence[str]) -> Options:
    """Return the checked options; `requested` has those of a request by name.

    `device` selects the provider when no option does; `available`: the names of the providers
    that this ONNX Runtime has. Raises BadOption.
    """
    check_known(requested, "onnxruntime")
    provider = str(requested.get("provider") or ("cuda" if device == "gpu" else device or "cpu"))
    provider_name = PROVIDERS.get(provider.lower(), provider)
    if provider_name not in available:
        raise BadOption("provider", provider, f"one of {', '.join(available)}")
    return Options(
        threads=count(requested, "intra_threads", count(requested, "threads", usable_cores())),
        inter_threads=count(requested, "inter_threads", 1),
        graph_optimization=choice(requested, "graph_optimization", OPTIMIZATIONS, "all"),
        mode=choice(requested, "mode", MODES, "sequential"),
        spinning=flag(requested, "spinning", default=True),
        provider=provider_name,
    )
