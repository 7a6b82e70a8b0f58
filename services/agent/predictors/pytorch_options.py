"""PyTorch's options: checked, with what they come to when not given."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from services.agent.errors import BadOption
from services.agent.predictors.options import check_known, choice, count, flag, usable_cores

PRECISIONS = ("float32", "float16", "bfloat16")
COMPILE_MODES = ("none", "default", "reduce-overhead", "max-autotune")
CALLS = ("auto", "positional", "keyword", "list")
KNOWN = (
    *("threads", "inter_threads", "precision", "compile", "allow_tf32"),
    *("channels_last", "graphs", "call", "weights"),
)


@dataclass(frozen=True, slots=True)
class Options:
    """What a model is opened with."""

    #: threads inside one operator, and operators side by side
    threads: int
    inter_threads: int
    precision: str
    #: `torch.compile`'s mode; none is eager
    compile: str
    #: whether float32 may be computed with 10 bits of mantissa on a GPU
    allow_tf32: bool
    channels_last: bool
    #: one captured CUDA graph, replayed
    graphs: bool
    #: how the model takes its inputs; `list` is one list of unbatched samples
    call: str
    device: str
    #: `random`: the builder's own, in place of those the manifest names
    weights: str = ""

    def as_given(self) -> dict[str, Any]:
        """Return the effective options by name."""
        return asdict(self)


def options_of(given: Mapping[str, Any], device: str, *, has_gpu: bool) -> Options:
    """Return the options of a request for `device` cpu, gpu or cuda:N. Raises BadOption."""
    check_known(given, KNOWN)
    place = "cuda" if device == "gpu" else device or "cpu"
    on_gpu = place.startswith("cuda")
    if on_gpu and not has_gpu:
        raise BadOption("device", device, "cpu: this PyTorch sees no GPU")
    options = Options(
        threads=count(given, "threads", usable_cores()),
        inter_threads=count(given, "inter_threads", 1),
        precision=choice(given, "precision", PRECISIONS, "float32"),
        compile=choice(given, "compile", COMPILE_MODES, "none"),
        allow_tf32=flag(given, "allow_tf32", default=False),
        channels_last=flag(given, "channels_last", default=False),
        graphs=flag(given, "graphs", default=False),
        call=choice(given, "call", CALLS, "auto"),
        device=place,
        weights=choice(given, "weights", ("", "random"), ""),
    )
    if options.graphs and not on_gpu:
        raise BadOption("graphs", True, "false on a CPU: there are no CUDA graphs")
    return options
