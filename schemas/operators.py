"""Operators a manifest's steps may name, with their parameters; the agent's steps do them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.manifest import ModelManifest, Step

OPERATORS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "decode": ("color_mode", "color_layout", "element_type", "data_layout"),
        "resize": ("dimensions", "method", "keep_aspect_ratio"),
        "crop": ("dimensions", "ratio", "method"),
        "normalize": ("mean", "scale", "rescale"),
        "cast": ("element_type", "layout", "data_layout"),
        "softmax": (),
        "topk": ("k", "labels", "labels_url"),
        "argsort": ("k", "labels", "labels_url"),
    }
)
"""Parameter names by operator; `argsort` is what the papers' listings call `topk`."""


@dataclass(frozen=True, slots=True)
class StepFault:
    """A step nobody can do: where it is in its manifest, what is there, and what may be."""

    path: str
    found: str
    allowed: str


def step_faults(model: ModelManifest) -> Iterator[StepFault]:
    """Yield each step that names an unknown operator or parameter, in the manifest's order."""
    for side, ports in (("inputs", model.inputs), ("outputs", model.outputs)):
        for number, port in enumerate(ports):
            for place, step in enumerate(port.steps):
                yield from _faults(step, f"{side}.{number}.steps.{place}")


def _faults(step: Step, path: str) -> Iterator[StepFault]:
    known = OPERATORS.get(step.operator)
    if known is None:
        yield StepFault(f"{path}.operator", step.operator, ", ".join(OPERATORS))
        return
    for name in step.parameters:
        if name not in known:
            yield StepFault(f"{path}.{step.operator}.{name}", name, ", ".join(known) or "none")
