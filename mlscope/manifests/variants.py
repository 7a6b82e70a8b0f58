"""One model on several frameworks: the manifest of each, as if it were the only one. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from mlscope.manifests.errors import NoVariant
from schemas.manifest import FrameworkNeed, ModelManifest, Port, Step, Variant
from schemas.manifest.operators import OTHER_OUTPUTS
from schemas.values.framework_names import predictors_name

_LAYOUT_PARAMETERS = ("data_layout", "layout")


def frameworks_of(model: ModelManifest) -> tuple[FrameworkNeed, ...]:
    """Return the frameworks that a model has variants for, in the manifest's order."""
    variants = (FrameworkNeed(name=entry.name, version=entry.version) for entry in model.frameworks)
    return (model.framework, *variants)


def variants_of(model: ModelManifest) -> Iterator[ModelManifest]:
    """Yield the model once for each framework, with that framework's fields and no `frameworks`."""
    yield model.model_copy(update={"frameworks": ()})
    for variant in model.frameworks:
        yield model.model_copy(
            update={
                "framework": FrameworkNeed(name=variant.name, version=variant.version),
                "frameworks": (),
                "model": variant.model,
                "options": variant.options,
                "inputs": tuple(_variant_port(port, variant) for port in model.inputs),
                "outputs": tuple(_variant_port(port, variant) for port in model.outputs),
            }
        )


def variant_for(model: ModelManifest, framework: str = "") -> ModelManifest:
    """Return the variant for a framework, by any of its names; '' is the first.

    Raises NoVariant.
    """
    name = predictors_name(framework).lower()
    for variant in variants_of(model):
        if name in ("", variant.framework.name.lower()):
            return variant
    names = [need.name for need in frameworks_of(model)]
    raise NoVariant(f"{model.name} {model.version}", framework, names)


def _variant_port(port: Port, variant: Variant) -> Port:
    """Return an input or output with the layer names and the layout of a variant."""
    layout = variant.layouts.get(port.layer_name, "")
    changes: dict[str, Any] = {}
    if port.layer_name in variant.layer_names:
        changes["layer_name"] = variant.layer_names[port.layer_name]
    if layout:
        changes["shape"] = shape_in_layout(port.shape, layout)
    if layout or (variant.layer_names and port.steps):
        changes["steps"] = tuple(
            _variant_step(step, variant.layer_names, layout) for step in port.steps
        )
    return port.model_copy(update=changes) if changes else port


def _variant_step(step: Step, layer_names: Mapping[str, str], layout: str) -> Step:
    """Return a step whose parameters name the variant's outputs and, if any, its `layout`."""
    parameters = {
        name: layer_names.get(value, value)
        for name, value in step.parameters.items()
        if name in OTHER_OUTPUTS and isinstance(value, str)
    }
    if layout:
        parameters |= {name: layout for name in _LAYOUT_PARAMETERS if name in step.parameters}
    if not parameters:
        return step
    return step.model_copy(update={"parameters": {**step.parameters, **parameters}})


def shape_in_layout(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Return a four-dimensional shape of the other layout in `layout`: NCHW or NHWC."""
    if len(shape) != 4:
        return shape
    if layout == "NHWC":
        batch, channels, height, width = shape
        return (batch, height, width, channels)
    batch, height, width, channels = shape
    return (batch, channels, height, width)
