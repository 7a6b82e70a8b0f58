"""One model on several frameworks: the manifest of each, as if it were the only one. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from mlscope.manifests.errors import NoVariant
from schemas.manifest import FrameworkNeed, ModelManifest, Port, Step, Variant
from schemas.operators import OTHER_OUTPUTS

_LAYOUT_PARAMETERS = ("data_layout", "layout")


def frameworks_of(model: ModelManifest) -> tuple[FrameworkNeed, ...]:
    """Return the frameworks a model has variants for, in the manifest's order."""
    further = (FrameworkNeed(name=each.name, version=each.version) for each in model.frameworks)
    return (model.framework, *further)


def variants_of(model: ModelManifest) -> Iterator[ModelManifest]:
    """Yield the model once for each framework: `frameworks` is empty, the rest is its own."""
    yield model.model_copy(update={"frameworks": ()})
    for each in model.frameworks:
        yield _variant(model, each)


def variant_for(model: ModelManifest, framework: str = "") -> ModelManifest:
    """Return the variant for a framework, case aside; '' is the first. Raises NoVariant."""
    wanted = framework.lower()
    for each in variants_of(model):
        if wanted in ("", each.framework.name.lower()):
            return each
    known = [each.name for each in frameworks_of(model)]
    raise NoVariant(f"{model.name} {model.version}", framework, known)


def _variant(model: ModelManifest, variant: Variant) -> ModelManifest:
    return model.model_copy(
        update={
            "framework": FrameworkNeed(name=variant.name, version=variant.version),
            "frameworks": (),
            "model": variant.model,
            "options": variant.options,
            "inputs": tuple(_port(port, variant) for port in model.inputs),
            "outputs": tuple(_port(port, variant) for port in model.outputs),
        }
    )


def _port(port: Port, variant: Variant) -> Port:
    changes: dict[str, Any] = {}
    if port.layer_name in variant.layer_names:
        changes["layer_name"] = variant.layer_names[port.layer_name]
    if variant.layer_names and port.steps:
        changes["steps"] = tuple(_step_renamed(step, variant.layer_names) for step in port.steps)
    layout = variant.layouts.get(port.layer_name, "")
    if layout:
        changes["shape"] = _in_layout(port.shape, layout)
        steps = changes.get("steps", port.steps)
        changes["steps"] = tuple(_step_in_layout(step, layout) for step in steps)
    return port.model_copy(update=changes) if changes else port


def _step_renamed(step: Step, names: Mapping[str, str]) -> Step:
    """Return a step that reads other outputs by the variant's names of them."""
    own = {
        parameter: names.get(value, value)
        for parameter, value in step.parameters.items()
        if parameter in OTHER_OUTPUTS and isinstance(value, str)
    }
    return step.model_copy(update={"parameters": {**step.parameters, **own}}) if own else step


def _in_layout(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Return a four-dimensional shape written for the other layout: channels first or last."""
    if len(shape) != 4:
        return shape
    batch, *rest = shape
    if layout == "NHWC":
        channels, height, width = rest
        return (batch, height, width, channels)
    height, width, channels = rest
    return (batch, channels, height, width)


def _step_in_layout(step: Step, layout: str) -> Step:
    changed: Mapping[str, Any] = {
        name: layout for name in _LAYOUT_PARAMETERS if name in step.parameters
    }
    if not changed:
        return step
    return step.model_copy(update={"parameters": {**step.parameters, **changed}})
