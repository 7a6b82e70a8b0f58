"""Check TensorFlow's options and fill in the defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from services.agent.errors import BadOption
from services.agent.predictors.options import check_known, choice, count, flag, usable_cores

PRECISIONS = ("float32", "bfloat16", "float16")
FORMS = ("saved_model", "frozen", "keras", "builder")


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a model is opened with."""

    #: threads inside one operation, and operations that run at once
    threads: int
    inter_threads: int
    #: compile the model into one XLA program for the batch's shape
    jit_compile: bool
    #: the type that a builder's model computes in; '' keeps the file's
    precision: str
    allow_tf32: bool
    #: the function of a SavedModel that is called
    signature: str
    device: str

    def by_name(self) -> dict[str, Any]:
        """Return the effective options by name."""
        return asdict(self)


def options_of(
    requested: Mapping[str, Any], device: str, form: str, devices: Sequence[str]
) -> Options:
    """Return the checked options; `requested` has those of a request by name.

    `device` is cpu, gpu or gpu:N; `form`: one of `FORMS`; `devices`: those TensorFlow sees here,
    such as CPU:0. Raises BadOption.
    """
    check_known(requested, "tensorflow")
    place = (device or "cpu").upper().replace("CUDA", "GPU")
    place = place if ":" in place else f"{place}:0"
    if place not in devices:
        raise BadOption("device", device, f"one of {', '.join(devices).lower()}")
    if form != "builder" and "precision" in requested:
        raise BadOption(
            "precision", requested["precision"], "left out, as a model file has its own"
        )
    jit_compile = flag(requested, "jit_compile", default=False)
    if jit_compile and form == "frozen":
        raise BadOption("jit_compile", True, "false: a frozen graph runs in a session")
    signature = requested.get("signature", "serving_default")
    if not isinstance(signature, str):
        raise BadOption("signature", signature, "a signature's name")
    own_precision = choice(requested, "precision", PRECISIONS, "float32")
    return Options(
        threads=count(requested, "intra_threads", count(requested, "threads", usable_cores())),
        inter_threads=count(requested, "inter_threads", 1),
        jit_compile=jit_compile,
        precision=own_precision if form == "builder" else "",
        allow_tf32=flag(requested, "allow_tf32", default=False),
        signature=signature,
        device=place,
    )
