"""The outputs of an opened model: such as its manifest says, as far as both tell."""

from collections.abc import Iterator, Sequence

from schemas.manifest import ModelManifest, Port
from services.agent.errors import OpenFailed
from services.agent.pipeline import Pipeline
from services.agent.predictors import TensorPlace


def check_outputs(model: ModelManifest, opened: Sequence[TensorPlace], pipeline: Pipeline) -> None:
    """Raise OpenFailed where a manifest says something else of an output than the model has.

    An output that steps read must be there. A shape is compared but for the batch dimension and
    -1; nothing is where either tells none, or the predictor knows no outputs.
    """
    by_name = {place.name: place for place in opened}
    for name in _read(pipeline) if opened else ():
        if name not in by_name:
            reason = f"has outputs {', '.join(by_name)}; its manifest's steps read {name!r}"
            raise OpenFailed(model.name, reason)
    for number, port in enumerate(model.outputs):
        place = by_name.get(port.layer_name)
        if not port.layer_name and number < len(opened):
            place = opened[number]
        if place is not None:
            check_described(model.name, "output", place, port)


def _read(pipeline: Pipeline) -> Iterator[str]:
    """Yield the names that the steps behind the model read; code reads what it likes."""
    if pipeline.code_behind:
        return
    for port in pipeline.behind:
        if port.name:
            yield port.name
        for step in port.steps:
            yield from step.others


def check_described(model: str, what: str, place: TensorPlace, port: Port) -> None:
    """Raise OpenFailed where a manifest's shape or element type is not the model's.

    `what` is input or output. The batch dimension is the request's to say. A manifest that says no
    element type means the model's own; of an output `float32` does too.
    """
    has, says = place.shape, port.shape
    pairs = list(zip(has, says, strict=False))[1:]
    if has and says and (len(has) != len(says) or any(a != b for a, b in pairs if min(a, b) >= 0)):
        reason = f"{what} {place.name} has shape {list(has)}, its manifest says {list(says)}"
        raise OpenFailed(model, reason)
    is_open = not port.says_element_type or (what == "output" and port.element_type == "float32")
    if port.element_type != place.element_type and not is_open:
        reason = f"{what} {place.name} is {place.element_type}, its manifest says"
        raise OpenFailed(model, f"{reason} {port.element_type}")
