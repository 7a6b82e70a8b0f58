"""Turn a batch's arrays into a PyTorch model's input tensors: made once, moved for each call."""

import numpy as np
import torch

from services.agent.predictors import Tensors
from services.agent.predictors.pytorch.options import Options

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


class Feed:
    """The arrays of one batch and their tensors.

    On a CPU tensors share the arrays' memory. A copy to a GPU is not waited for: CUDA has read all
    of pageable memory when the call returns, and the outputs follow on the same stream.
    """

    def __init__(self, inputs: Tensors, options: Options) -> None:
        # As long as the inputs live, no other object can get their id.
        self.inputs = inputs
        #: in the inputs' order, on the host
        self.tensors = [torch.from_numpy(np.asarray(array)) for array in inputs.values()]
        self._device = torch.device(options.device)
        self._dtype = DTYPES[options.precision]
        self._channels_last = options.channels_last
        self._is_shared = all(self._moved(tensor) is tensor for tensor in self.tensors)

    def moved(self) -> list[torch.Tensor]:
        """Return the tensors on the device, in the precision and layout of the options."""
        if self._is_shared:
            return self.tensors
        return [self._moved(tensor) for tensor in self.tensors]

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor on the device; itself where nothing changes."""
        if not tensor.is_floating_point():
            return tensor.to(self._device, non_blocking=True)
        tensor = tensor.to(self._device, self._dtype, non_blocking=True)
        if self._channels_last and tensor.dim() == 4:
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor
