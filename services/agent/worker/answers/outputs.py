"""Checks the outputs of an opened model against its manifest."""

from collections.abc import Sequence

from schemas.manifest import ModelManifest, Port
from services.agent.errors import OpenFailed
from services.agent.predictors import TensorPlace
from services.agent.worker.queries.pipeline import Pipeline


def check_outputs(model: ModelManifest, opened: Sequence[TensorPlace], pipeline: Pipeline) -> None:
    """Require the `opened` outputs of a `model` to be those of its manifest. Raises OpenFailed.

    An output that steps of the `pipeline` read must exist. Shapes are compared except for the batch
    dimension and -1; nothing is compared where one of both is unknown.
    """
    names = [place.name for place in opened]
    # By name, and by number for outputs of the manifest that have no name.
    places = dict[str | int, TensorPlace](zip(names, opened, strict=True)) | dict(enumerate(opened))
    for name in pipeline.outputs_read() if opened else ():
        if name not in places:
            reason = f"has outputs {', '.join(names)}; its manifest's steps read {name!r}"
            raise OpenFailed(model.name, reason)
    for number, port in enumerate(model.outputs):
        place = places.get(port.layer_name or number)
        if place is not None:
            check_described(model.name, "output", place, port)


def check_described(model: str, kind: str, place: TensorPlace, port: Port) -> None:
    """Require a manifest's shape and element type of a `port` to be the tensor's.

    `model` names the model, `kind` is input or output, `place` the opened model's tensor. The
    request gives the batch dimension. A manifest without an element type means the model's own; of
    an output `float32` does, too. Raises OpenFailed.
    """
    actual, declared = place.shape, port.shape
    pairs = list(zip(actual, declared, strict=False))[1:]
    is_other = len(actual) != len(declared) or any(a != b for a, b in pairs if min(a, b) >= 0)
    if actual and declared and is_other:
        reason = f"{kind} {place.name} has shape {list(actual)}, its manifest says {list(declared)}"
        raise OpenFailed(model, reason)
    is_default = (kind, port.element_type) == ("output", "float32")
    is_open = is_default or not port.says_element_type
    if port.element_type != place.element_type and not is_open:
        reason = f"{kind} {place.name} is {place.element_type}, its manifest says"
        raise OpenFailed(model, f"{reason} {port.element_type}")
