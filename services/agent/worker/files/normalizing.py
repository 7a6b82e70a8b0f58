"""Moves the last numeric steps of pictures from the host to the model's device.

With the option `normalize: device` a batch holds the pictures' bytes, a quarter of float32's, and
the predictor computes what the step `normalize` would have: (x · rescale_factor - mean) / scale.
"""

import numpy as np

from schemas.manifest import Port, Step
from schemas.plan import Subject
from services.agent.errors import BadOption
from services.agent.predictors.normalization import OPTION, Normalization
from services.agent.steps import operator_of
from services.agent.steps.parameters import Parameters

FRAMEWORKS = ("pytorch",)
_ON_BYTES = ("decode", "resize", "crop")
"""Steps that leave the elements of a picture bytes."""
_MOVABLE = ("normalize", "cast")

Normalizations = tuple[Normalization | None, ...]
"""Of each input of a manifest; None where the device has nothing to do."""


def with_normalize_moved(subject: Subject) -> tuple[Subject, Normalizations]:
    """Return a subject as it is opened, with what the predictor computes of each input.

    They are the subject itself and nothing unless it asks for `normalize: device` in a framework
    that offers it. Raises BadOption where no input allows it.
    """
    if subject.options.get(OPTION) != "device" or subject.framework not in FRAMEWORKS:
        return subject, ()
    normalizations = tuple(_normalization(port) for port in subject.model.inputs)
    if not any(normalizations):
        expected = "host: no input ends with the steps normalize and cast (float32) behind decode"
        raise BadOption(OPTION, "device", expected)
    inputs = list(subject.model.inputs)
    for number, port in enumerate(subject.model.inputs):
        if normalizations[number] is not None:
            # The last step orders bytes in place of numbers.
            *before, _, cast = port.steps
            ordered = Step(operator="cast", parameters={**cast.parameters, "element_type": "uint8"})
            changes = {"steps": (*before, ordered), "element_type": "uint8"}
            inputs[number] = port.model_copy(update=changes)
    model = subject.model.model_copy(update={"inputs": tuple(inputs)})
    return subject.model_copy(update={"model": model}), normalizations


def _normalization(port: Port) -> Normalization | None:
    """Return what an input's last two steps compute of bytes; None where others are there."""
    *before, normalize, cast = port.steps if len(port.steps) > len(_MOVABLE) else (None,) * 2
    if normalize is None or cast is None:
        return None
    names = [step.operator for step in before if step is not None]
    is_picture = names[:1] == ["decode"] and set(names) <= set(_ON_BYTES)
    element_type = str(cast.parameters.get("element_type", "float32")).lower()
    is_last = (normalize.operator, cast.operator) == _MOVABLE
    if not (is_picture and is_last and element_type == "float32"):
        return None
    parameters = Parameters(normalize.operator, normalize.parameters)
    mean = parameters.per_channel(("mean",), default=0.0)
    scale = parameters.per_channel(("scale", "rescale"), default=1.0)
    channels = max(len(mean), len(scale))
    values = np.arange(256, dtype=np.uint8).reshape(256, 1, 1).repeat(channels, axis=2)
    layout = cast.parameters.get("data_layout", cast.parameters.get("layout", "HWC"))
    on_host = operator_of(normalize, lambda _: ()).apply(values)
    return Normalization(
        mean=mean,
        scale=scale,
        factor=parameters.number("rescale_factor", default=1.0),
        channels_first=str(layout).upper().endswith("CHW"),
        on_host=on_host.reshape(256, channels),
    )
