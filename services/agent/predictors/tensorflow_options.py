"""TensorFlow's options: checked, with what they come to when not given."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from services.agent.errors import BadOption
from services.agent.predictors.options import check_known, choice, count, flag, usable_cores

PRECISIONS = ("float32", "bfloat16", "float16")
FORMS = ("saved_model", "frozen", "keras", "builder")
KNOWN = (
    *("threads", "intra_threads", "inter_threads", "jit_compile"),
    *("precision", "allow_tf32", "signature"),
)


@dataclass(frozen=True, slots=True)
class Options:
    """What a model is opened with."""

    #: threads inside one operation, and operations side by side
    threads: int
    inter_threads: int
    #: one XLA program for the batch's shape
    jit_compile: bool
    #: what a builder's model computes in; '' is as the file has it
    precision: str
    allow_tf32: bool
    #: which of a SavedModel's functions
    signature: str
    device: str

    def as_given(self) -> dict[str, Any]:
        """Return the effective options by name."""
        return asdict(self)


def options_of(given: Mapping[str, Any], device: str, form: str, devices: Sequence[str]) -> Options:
    """Return the options of a request for a model of a form.

    `devices` are TensorFlow's names here, as CPU:0. Raises BadOption.
    """
    check_known(given, KNOWN)
    place = (device or "cpu").upper().replace("CUDA", "GPU")
    place = place if ":" in place else f"{place}:0"
    if place not in devices:
        raise BadOption("device", device, f"one of {', '.join(devices).lower()}")
    if form != "builder" and "precision" in given:
        raise BadOption("precision", given["precision"], "left out: a model file has its own")
    jit_compile = flag(given, "jit_compile", default=False)
    if jit_compile and form == "frozen":
        raise BadOption("jit_compile", True, "false for a frozen graph, which a session runs")
    signature = given.get("signature", "serving_default")
    if not isinstance(signature, str):
        raise BadOption("signature", signature, "a signature's name")
    return Options(
        threads=count(given, "intra_threads", count(given, "threads", usable_cores())),
        inter_threads=count(given, "inter_threads", 1),
        jit_compile=jit_compile,
        precision=choice(given, "precision", PRECISIONS, "float32") if form == "builder" else "",
        allow_tf32=flag(given, "allow_tf32", default=False),
        signature=signature,
        device=place,
    )
