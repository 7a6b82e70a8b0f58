"""A batch's arrays as the tensors a PyTorch model takes: made once, moved for each call."""

import numpy as np
import torch

from services.agent.predictors import Tensors
from services.agent.predictors.pytorch_options import Options

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


class Feed:
    """The arrays of one batch and their tensors.

    On a CPU tensors share the arrays' memory. The copy to a GPU is begun and not waited for: of
    pageable memory CUDA has read all when it returns, and a call's outputs are waited for behind
    it on the same stream.
    """

    def __init__(self, inputs: Tensors, options: Options) -> None:
        # Kept beside the tensors: an id may be used again once these are gone.
        self.inputs = inputs
        #: in the inputs' order, on the host
        self.tensors = [torch.from_numpy(np.asarray(each)) for each in inputs.values()]
        self._device = torch.device(options.device)
        self._dtype = DTYPES[options.precision]
        self._channels_last = options.channels_last
        self._is_shared = all(self._moved(each) is each for each in self.tensors)

    def moved(self) -> list[torch.Tensor]:
        """Return the tensors on the device, of the precision and layout that were asked for."""
        if self._is_shared:
            return self.tensors
        return [self._moved(each) for each in self.tensors]

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return one tensor on the device; itself where nothing changes."""
        if not tensor.is_floating_point():
            return tensor.to(self._device, non_blocking=True)
        tensor = tensor.to(self._device, self._dtype, non_blocking=True)
        if self._channels_last and tensor.dim() == 4:
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor
