"""Operators of manifests' steps with their parameters; the agent implements them. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.manifest.model import CODE_FIELDS, PLACEHOLDERS, ModelManifest, Port, Step

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
            "library",
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
            "window",
            "hop",
            "mels",
            "low_hz",
            "high_hz",
            "scale",
            "norm",
            "log",
            "floor",
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
            "end",
            "vocabulary",
            "lowercase",
            "most_pieces",
            "may_be_none",
            "null_threshold",
        ),
        "image": ("data_layout", "mean", "scale", "color_mode"),
        "raw": ("most",),
    }
)
"""Parameter names by operator; `argsort` is the papers' name of `topk`."""

OTHER_OUTPUTS = ("scores", "classes", "count", "end")
"""Parameters of steps after the model that name another of its outputs."""


@dataclass(frozen=True, slots=True)
class StepFault:
    """A step that no agent can execute: its path in the manifest, its value, and allowed ones."""

    path: str
    found: str
    allowed: str


def step_faults(model: ModelManifest) -> Iterator[StepFault]:
    """Yield each unknown operator or parameter, in the manifest's order, and code beside steps.

    One side of the model has either steps or inline code.
    """
    for path, step in steps_of(model):
        parameters = OPERATORS.get(step.operator)
        if parameters is None:
            yield StepFault(f"{path}.operator", step.operator, ", ".join(OPERATORS))
            continue
        allowed = ", ".join(parameters) or "none"
        for name in [name for name in step.parameters if name not in parameters]:
            yield StepFault(f"{path}.{step.operator}.{name}", name, allowed)
    yield from _code_faults(model, model.inputs, "preprocess")
    yield from _code_faults(model, model.outputs, "postprocess")


def placeholder_faults(model: ModelManifest) -> Iterator[StepFault]:
    """Yield each placeholder for code or an address, as in the papers' listings.

    Such a manifest parses, but no agent can run it.
    """
    for field in CODE_FIELDS:
        if str(getattr(model, field)).strip() in PLACEHOLDERS:
            yield StepFault(field, str(getattr(model, field)), "Python: def fun(env, data)")
    values = {f"model.{field}": value for field, value in model.model}
    values |= {
        f"{path}.{step.operator}.{name}": value
        for path, step in steps_of(model)
        for name, value in step.parameters.items()
    }
    for field, value in values.items():
        if isinstance(value, str) and "..." in value:
            yield StepFault(field, value, "the full text, without `...`")


def steps_of(model: ModelManifest) -> Iterator[tuple[str, Step]]:
    """Return each step of a model with its path in the manifest, as `inputs.0.steps.1`."""
    return (
        (f"{side}.{number}.steps.{position}", step)
        for side, ports in (("inputs", model.inputs), ("outputs", model.outputs))
        for number, port in enumerate(ports)
        for position, step in enumerate(port.steps)
    )


def _code_faults(model: ModelManifest, ports: tuple[Port, ...], name: str) -> Iterator[StepFault]:
    if not any(port.steps for port in ports):
        return
    for field in (f"before_{name}", name, f"after_{name}"):
        if getattr(model, field) not in ("", *PLACEHOLDERS):
            yield StepFault(field, "inline code", "either steps or inline code")
