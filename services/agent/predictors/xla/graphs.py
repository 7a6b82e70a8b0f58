"""The instructions of an XLA program that its command buffers (CUDA graphs) may run.

A command buffer is launched by one call, and its instructions have no time of their own on the
host. The collector `cupti` reads from here which layer each kernel belongs to, by name and order.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

_PLAIN = re.compile(r"[^\w]")
COMMAND_BUFFER = "command_buffer"
"""The prefix of a command buffer's name in the profile."""


@dataclass(frozen=True, slots=True)
class Graphable:
    """An instruction that starts kernels, and the name of its layer."""

    instruction: str
    layer: str

    @property
    def kernel(self) -> str:
        """The name of the kernel that XLA makes for it."""
        return _PLAIN.sub("_", self.instruction)


@dataclass(slots=True)
class Graphs:
    """The instructions of the process's model in the order of its schedule; empty when unknown."""

    instructions: Sequence[Graphable] = field(default=())

    def layers_of(self, kernels: Sequence[str]) -> list[str | None]:
        """Return the layer of each kernel of one graph, in order; None where it is unknown."""
        return layers_by_order(kernels, self.instructions)


GRAPHS = Graphs()
"""Those of this process: one worker opens one model."""


def layers_by_order(kernels: Sequence[str], instructions: Sequence[Graphable]) -> list[str | None]:
    """Return the layer of each kernel, matched by name and order; None where it is unknown.

    Kernels that XLA made are named after their instructions. Those of libraries are not, and equal
    ones are made once and run for several instructions. Kernels between two that match belong to
    the instructions between these: one to one where they are as many, all to a single one.
    """
    layers: list[str | None] = [None] * len(kernels)
    names = [instruction.kernel for instruction in instructions]
    matcher = SequenceMatcher(None, list(kernels), names, autojunk=False)
    last_kernel = last_instruction = None
    for block in matcher.get_matching_blocks():
        if last_kernel is not None and last_instruction is not None and block.size:
            gap = range(last_kernel, block.a)
            between = list(instructions[last_instruction : block.b])
            if len(between) == 1:
                between *= len(gap)
            if len(between) == len(gap):
                for number, instruction in zip(gap, between, strict=True):
                    layers[number] = instruction.layer
        for step in range(block.size):
            layers[block.a + step] = instructions[block.b + step].layer
        last_kernel, last_instruction = block.a + block.size, block.b + block.size
    return layers
