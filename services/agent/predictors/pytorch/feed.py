"""Turn a batch's arrays into a PyTorch model's input tensors: made once, moved for each call."""

from collections.abc import Mapping

import numpy as np
import torch

from services.agent.predictors import Tensors
from services.agent.predictors.page_locking import PageLocks
from services.agent.predictors.pytorch.host_memory import OutputBuffers
from services.agent.predictors.pytorch.options import Options
from services.agent.predictors.pytorch.outputs import array_of

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


class Feed:
    """The arrays of one batch, their tensors, and the memory that its outputs return into.

    On a CPU tensors share the arrays' memory. For a GPU the arrays are page-locked where that is
    possible. A copy to it is not waited for: the outputs follow on the same stream.
    """

    def __init__(self, inputs: Tensors, options: Options, locks: PageLocks | None = None) -> None:
        """Take the `inputs` of a model opened with these `options`; `locks` are a GPU's."""
        # As long as the inputs live, no other object can get their id.
        self.inputs = inputs
        arrays = [np.asarray(array) for array in inputs.values()]
        if locks is not None:
            for array in arrays:
                locks.lock(array)
        #: in the inputs' order, on the host
        self.tensors = [torch.from_numpy(array) for array in arrays]
        self._buffers = None if locks is None else OutputBuffers()
        self._device = torch.device(options.device)
        self._dtype = DTYPES[options.precision]
        self._channels_last = options.channels_last
        #: copies on the device that calls read in place of the host's tensors
        self._held: list[torch.Tensor] | None = None
        self._is_shared = locks is None and all(
            self._moved(tensor) is tensor for tensor in self.tensors
        )

    def moved(self) -> list[torch.Tensor]:
        """Return the tensors on the device, in the precision and layout of the options."""
        if self._held is not None:
            return self._held
        if self._is_shared:
            return self.tensors
        return [self._moved(tensor) for tensor in self.tensors]

    def hold(self) -> None:
        """Copy the arrays to the device as they are now: later calls read the copies."""
        self._held = [self._moved(tensor) for tensor in self.tensors]
        torch.cuda.current_stream(self._device).synchronize()

    def is_held_unchanged(self) -> bool:
        """Return whether the copies on the device, if there are any, are still the arrays'."""
        copies = self._held or ()
        pairs = zip(copies, self.tensors, strict=bool(copies))
        return all(_are_equal(copy, self._moved(tensor)) for copy, tensor in pairs)

    def release(self) -> None:
        """Let later calls read the arrays again."""
        self._held = None

    @property
    def sources(self) -> list[torch.Tensor]:
        """What a captured graph copies its inputs from: the device's copies, else the host's."""
        return self.tensors if self._held is None else self._held

    def fetched(self, outputs: Mapping[str, torch.Tensor]) -> Tensors:
        """Return the arrays of a call's `outputs`, once they are in the host's memory.

        Those of a GPU are valid until the second next call with these inputs.
        """
        if self._buffers is None:
            return {name: array_of(tensor) for name, tensor in outputs.items()}
        buffers = self.begin_fetch(outputs)
        torch.cuda.current_stream(self._device).synchronize()
        return {name: buffer.numpy() for name, buffer in buffers.items()}

    def begin_fetch(self, outputs: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Begin to copy `outputs` from a GPU on the current stream; see `OutputBuffers`."""
        assert self._buffers is not None
        return self._buffers.begin_fetch(outputs)

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor on the device; itself where nothing changes."""
        if not tensor.is_floating_point():
            return tensor.to(self._device, non_blocking=True)
        tensor = tensor.to(self._device, self._dtype, non_blocking=True)
        if self._channels_last and tensor.dim() == 4:
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor


def _are_equal(tensor: torch.Tensor, reference: torch.Tensor) -> bool:
    """Return whether two tensors are equal; NaN is equal to NaN here."""
    if torch.equal(tensor, reference):
        return True
    is_float = tensor.is_floating_point()
    return is_float and bool(torch.equal(tensor.nan_to_num(), reference.nan_to_num()))
