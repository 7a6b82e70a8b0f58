"""bytes: a file's beginning and end as numbers."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters

Numbers = npt.NDArray[np.int32]


def file_bytes(parameters: Parameters) -> Callable[[bytes], Numbers]:
    """Return bytes of a file -> int32 (first + last,), each 0 to 255, or `padding`.

    The `first` bytes behind white space at the beginning, and the `last` ones before white space
    at the end, each sought in `block` bytes at most; what is missing is `padding`, behind the
    former and before the latter. Equal to Magika 1.0's features.
    """
    first = parameters.whole("first", default=1024, least=0)
    last = parameters.whole("last", default=1024, least=0)
    block = parameters.whole("block", default=4096)
    padding = parameters.whole("padding", default=256, least=0)

    def apply(body: bytes) -> Numbers:
        numbers = np.full(first + last, padding, np.int32)
        beginning = body[:block].lstrip()[:first]
        numbers[: len(beginning)] = np.frombuffer(beginning, np.uint8)
        end = body[-block:].rstrip()
        end = end[max(len(end) - last, 0) :]
        numbers[first + last - len(end) :] = np.frombuffer(end, np.uint8)
        return numbers

    return apply
