"""Which instructions of an XLA program its command buffers (CUDA graphs) may run.

A command buffer is launched by one call and its instructions have no time of their own on the
host; the collector `cupti`, which meets the predictor here, tells their kernels by name and order.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

_PLAIN = re.compile(r"[^\w]")
COMMAND_BUFFER = "command_buffer"
"""How the profile's name of a command buffer's run begins."""


@dataclass(frozen=True, slots=True)
class Graphable:
    """An instruction that starts kernels, and the name of its layer."""

    instruction: str
    layer: str

    @property
    def kernel(self) -> str:
        """The name XLA gives a kernel that it makes for it."""
        return _PLAIN.sub("_", self.instruction)


@dataclass(slots=True)
class Graphs:
    """The instructions of the process's model in the order of its schedule; none is unknown."""

    instructions: Sequence[Graphable] = field(default=())

    def layers_of(self, kernels: Sequence[str]) -> list[str | None]:
        """Return the layer of each kernel of one graph, in order; None where it can't be told."""
        return layers_by_order(kernels, self.instructions)


GRAPHS = Graphs()
"""The process's own: one worker opens one model."""


def layers_by_order(kernels: Sequence[str], instructions: Sequence[Graphable]) -> list[str | None]:
    """Return the layer of each kernel, by name and order.

    Kernels that XLA made are named as their instructions; those of libraries are not, and equal
    ones are made once and run for several instructions. What lies between two that match goes to
    the instructions between them: one each where they are as many, all to one where it is alone.
    """
    layers: list[str | None] = [None] * len(kernels)
    names = [each.kernel for each in instructions]
    matcher = SequenceMatcher(None, list(kernels), names, autojunk=False)
    ended_a = ended_b = None
    for block in matcher.get_matching_blocks():
        if ended_a is not None and ended_b is not None and block.size:
            _fill(layers, range(ended_a, block.a), instructions[ended_b : block.b])
        for step in range(block.size):
            layers[block.a + step] = instructions[block.b + step].layer
        ended_a, ended_b = block.a + block.size, block.b + block.size
    return layers


def _fill(layers: list[str | None], places: Iterable[int], between: Sequence[Graphable]) -> None:
    places = list(places)
    if len(between) == 1:
        between = list(between) * len(places)
    if len(between) == len(places):
        for place, each in zip(places, between, strict=True):
            layers[place] = each.layer
