"""Check that the steps of a model's manifest can be made, before any of its files exist."""

from collections.abc import Iterator

from mlscope.manifests.errors import Fault
from schemas.manifest import Manifest, ModelManifest
from schemas.manifest.operators import OPERATORS
from services.agent.errors import AgentError, BadParameter
from services.agent.steps import operator_of

_PLACEHOLDER = "..."
_STAND_IN_LINES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
"""In place of a step's label file or vocabulary: the entries that every tokenizer needs."""


def value_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yield a fault for each parameter whose value a step of a model cannot use.

    Other manifests have none.
    """
    if not isinstance(manifest, ModelManifest):
        return
    steps = [
        (f"{side}.{port_number}.steps.{step_number}", step)
        for side, ports in (("inputs", manifest.inputs), ("outputs", manifest.outputs))
        for port_number, port in enumerate(ports)
        for step_number, step in enumerate(port.steps)
    ]
    for path, step in steps:
        values = step.parameters.values()
        is_unknown = not set(step.parameters) <= set(OPERATORS.get(step.operator, ()))
        if is_unknown or any(isinstance(v, str) and _PLACEHOLDER in v for v in values):
            continue  # reported elsewhere, or a value that is still to be filled in
        try:
            operator_of(step, lambda _: _STAND_IN_LINES)
        except BadParameter as error:
            field = f"{path}.{step.operator}.{error.field}"
            yield Fault(field, repr(error.value), error.expected)
        except (AgentError, ValueError):
            continue  # a package or file is missing here only
