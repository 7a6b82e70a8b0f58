"""Whether the steps of a model's manifest can be made, before any file of it is there. Pure."""

from collections.abc import Iterator

from mlscope.manifests.errors import Fault
from schemas.manifest import Manifest, ModelManifest, Step
from schemas.operators import OPERATORS
from services.agent.errors import AgentError, BadParameter
from services.agent.steps import operator_of

_LEFT_OUT = "..."
_LINES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
"""Stands for the label file or vocabulary of a step: those words every tokenizer wants."""


def value_faults(manifest: Manifest) -> Iterator[Fault]:
    """Yield each parameter whose value a step of a model can't use; nothing of other manifests."""
    if not isinstance(manifest, ModelManifest):
        return
    for side, ports in (("inputs", manifest.inputs), ("outputs", manifest.outputs)):
        for number, port in enumerate(ports):
            for place, step in enumerate(port.steps):
                yield from _in_step(f"{side}.{number}.steps.{place}", step)


def _in_step(place: str, step: Step) -> Iterator[Fault]:
    if not set(step.parameters) <= set(OPERATORS.get(step.operator, ())):
        return  # told as unknown
    if any(isinstance(each, str) and _LEFT_OUT in each for each in step.parameters.values()):
        return
    try:
        operator_of(step, lambda _: _LINES)
    except BadParameter as error:
        field = f"{place}.{step.operator}.{error.field}"
        yield Fault(field, repr(error.found), error.expected)
    except (AgentError, ValueError):
        return  # a package or file that is only missing here
