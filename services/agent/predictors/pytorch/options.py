"""Check PyTorch's options and fill in the defaults."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mlscope.manifests.device_names import is_gpu
from services.agent.errors import BadOption
from services.agent.predictors import decoding
from services.agent.predictors.normalization import OPTION, PLACES
from services.agent.predictors.options import check_known, choice, count, flag, usable_cores

PRECISIONS = ("float32", "float16", "bfloat16")
COMPILE_MODES = ("none", "default", "reduce-overhead", "max-autotune")
INPUTS = ("host", "device")
CALLS = ("auto", "positional", "keyword", "list")


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a model is opened with."""

    #: threads inside one operator, and operators that run at once
    threads: int
    inter_threads: int
    precision: str
    #: `torch.compile`'s mode; none is eager
    compile: str
    #: whether float32 may be computed with 10 bits of mantissa on a GPU
    allow_tf32: bool
    channels_last: bool
    #: capture one CUDA graph and replay it
    graphs: bool
    #: how the model takes its inputs; `list` is one list of unbatched samples
    call: str
    device: str
    #: `random`: keep the builder's random weights in place of those that the manifest names
    weights: str = ""
    #: where a call finds its inputs; `device`: copied to a GPU before the clock
    inputs: str = "host"
    #: where pictures' bytes become numbers
    normalize: str = "host"
    #: where files become pictures, which are resized and cropped
    decode: str = "host"

    def by_name(self) -> dict[str, Any]:
        """Return the effective options by name."""
        return asdict(self)


def place_of(device: str) -> str:
    """Return PyTorch's own name of a `device`: its builds for AMD call their GPUs cuda."""
    return "cuda" if device in ("gpu", "rocm") else device or "cpu"


def options_of(requested: Mapping[str, Any], device: str, *, has_gpu: bool) -> Options:
    """Return the checked options; `requested` has those of a request by name.

    `device` is cpu, gpu, cuda:N, rocm, xpu or mps; `has_gpu`: PyTorch sees a GPU of that kind
    here. Raises BadOption.
    """
    check_known(requested, "pytorch")
    place = place_of(device)
    if is_gpu(place) and not has_gpu:
        raise BadOption("device", device, "cpu: this PyTorch sees no GPU")
    options = Options(
        threads=count(requested, "threads", usable_cores()),
        inter_threads=count(requested, "inter_threads", 1),
        precision=choice(requested, "precision", PRECISIONS, "float32"),
        compile=choice(requested, "compile", COMPILE_MODES, "none"),
        allow_tf32=flag(requested, "allow_tf32", default=False),
        channels_last=flag(requested, "channels_last", default=False),
        graphs=flag(requested, "graphs", default=False),
        call=choice(requested, "call", CALLS, "auto"),
        device=place,
        weights=choice(requested, "weights", ("", "random"), ""),
        inputs=choice(requested, "inputs", INPUTS, "host"),
        normalize=choice(requested, OPTION, PLACES, "host"),
        decode=choice(requested, decoding.OPTION, decoding.PLACES, "host"),
    )
    if place.startswith("cuda"):
        return options
    if options.graphs:
        raise BadOption("graphs", True, "false on a CPU: there are no CUDA graphs")
    if options.inputs == "device":
        raise BadOption("inputs", "device", "host: a CPU uses the host's memory")
    if options.decode == "device":
        raise BadOption(decoding.OPTION, "device", "host on a CPU: nvJPEG decodes on a GPU")
    return options
