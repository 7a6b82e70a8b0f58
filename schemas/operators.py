"""Operators a manifest's steps may name, with their parameters; the agent's steps do them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.manifest import CODE_FIELDS, PLACEHOLDERS, ModelManifest, Port, Step

_LABELS = ("labels", "labels_url")
_DETECTION = ("scores", "classes", "count", "score", "most", "first_class", *_LABELS)

OPERATORS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "decode": ("color_mode", "color_layout", "element_type", "data_layout"),
        "resize": (
            "dimensions",
            "max_dimension",
            "method",
            "keep_aspect_ratio",
            "fit",
            "antialias",
        ),
        "crop": ("dimensions", "ratio", "method"),
        "pad": ("dimensions", "multiple", "method", "value"),
        "normalize": ("mean", "scale", "rescale", "rescale_factor"),
        "cast": ("element_type", "layout", "data_layout"),
        "layout": ("from", "to"),
        "constant": ("value",),
        "bytes": ("first", "last", "block", "padding"),
        "audio_decode": ("channels",),
        "resample": ("rate_hz",),
        "waveform": ("length",),
        "spectrogram": (
            *("window", "hop", "mels", "low_hz", "high_hz", "scale", "norm", "log", "floor"),
        ),
        "tokenize": ("vocabulary", "length", "gives", "lowercase"),
        "softmax": (),
        "sigmoid": (),
        "topk": ("k", *_LABELS),
        "argsort": ("k", *_LABELS),
        "boxes": ("format", "iou", *_DETECTION),
        "masks": ("threshold", *_DETECTION),
        "regions": ("threshold", "least", "score", "unclip", "label"),
        "segmentation": ("data_layout", *_LABELS),
        "ctc": ("blank", "data_layout", "space", *_LABELS),
        "answer_span": (
            *("end", "vocabulary", "lowercase", "most_pieces", "may_be_none", "null_threshold"),
        ),
        "image": ("data_layout", "mean", "scale", "color_mode"),
        "raw": ("most",),
    }
)
"""Parameter names by operator; `argsort` is what the papers' listings call `topk`."""

OTHER_OUTPUTS = ("scores", "classes", "count", "end")
"""Parameters of steps behind the model that name another of its outputs."""


@dataclass(frozen=True, slots=True)
class StepFault:
    """What nobody can do: where it is in its manifest, what is there, and what may be."""

    path: str
    found: str
    allowed: str


def step_faults(model: ModelManifest) -> Iterator[StepFault]:
    """Yield each step that names an unknown operator or parameter, in the manifest's order.

    And inline code on a side of the model that has steps: one or the other.
    """
    for side, ports in (("inputs", model.inputs), ("outputs", model.outputs)):
        for number, port in enumerate(ports):
            for place, step in enumerate(port.steps):
                yield from _faults(step, f"{side}.{number}.steps.{place}")
    yield from _code_faults(model, model.inputs, "preprocess")
    yield from _code_faults(model, model.outputs, "postprocess")


def placeholder_faults(model: ModelManifest) -> Iterator[StepFault]:
    """Yield what a model's manifest leaves out, as the papers' listings do: code and addresses.

    It parses, and nobody can run it.
    """
    for field in CODE_FIELDS:
        if str(getattr(model, field)).strip() in PLACEHOLDERS:
            yield StepFault(field, str(getattr(model, field)), "Python: def fun(env, data)")
    for field, value in model.model:
        if isinstance(value, str) and "..." in value:
            yield StepFault(f"model.{field}", value, "all of it, nothing left out")
    for side, ports in (("inputs", model.inputs), ("outputs", model.outputs)):
        for number, port in enumerate(ports):
            for place, step in enumerate(port.steps):
                for name, value in step.parameters.items():
                    if isinstance(value, str) and "..." in value:
                        path = f"{side}.{number}.steps.{place}.{step.operator}.{name}"
                        yield StepFault(path, value, "all of it, nothing left out")


def _faults(step: Step, path: str) -> Iterator[StepFault]:
    known = OPERATORS.get(step.operator)
    if known is None:
        yield StepFault(f"{path}.operator", step.operator, ", ".join(OPERATORS))
        return
    for name in step.parameters:
        if name not in known:
            yield StepFault(f"{path}.{step.operator}.{name}", name, ", ".join(known) or "none")


def _code_faults(model: ModelManifest, ports: tuple[Port, ...], name: str) -> Iterator[StepFault]:
    if not any(port.steps for port in ports):
        return
    for field in (f"before_{name}", name, f"after_{name}"):
        if getattr(model, field) not in ("", *PLACEHOLDERS):
            yield StepFault(field, "inline code", "none beside steps: one or the other")
