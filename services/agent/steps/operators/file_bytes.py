"""bytes: the beginning and end of a file as numbers."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters

Numbers = npt.NDArray[np.int32]


def file_bytes(parameters: Parameters) -> Callable[[bytes], Numbers]:
    """Return bytes of a file -> int32 (first + last,), each 0 to 255, or `padding`.

    They are the `first` bytes after white space at the beginning, and the `last` bytes before white
    space at the end, each read from at most `block` bytes. Missing ones are `padding`, after the
    former and before the latter. Equal to the features of Magika 1.0.
    """
    first = parameters.integer("first", default=1024, minimum=0)
    last = parameters.integer("last", default=1024, minimum=0)
    block = parameters.integer("block", default=4096)
    padding = parameters.integer("padding", default=256, minimum=0)

    def apply(body: bytes) -> Numbers:
        numbers = np.full(first + last, padding, np.int32)
        beginning = body[:block].lstrip()[:first]
        numbers[: len(beginning)] = np.frombuffer(beginning, np.uint8)
        end = body[-block:].rstrip()
        end = end[max(len(end) - last, 0) :]
        numbers[first + last - len(end) :] = np.frombuffer(end, np.uint8)
        return numbers

    return apply
