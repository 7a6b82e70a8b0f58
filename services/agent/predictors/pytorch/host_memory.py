"""PyTorch's page-locked memory on the host: inputs are locked in place, outputs return into it."""

import contextlib
from collections.abc import Mapping

import torch

from services.agent.predictors.page_locking import PageLocks

Layout = tuple[torch.Size, tuple[int, ...], torch.dtype]
"""Shape, strides and element type of a tensor."""


def cuda_page_locks() -> PageLocks:
    """Return page locks by CUDA's runtime, as PyTorch has loaded it."""
    runtime = torch.cuda.cudart()

    def lock(address: int, size_bytes: int) -> None:
        error = int(runtime.cudaHostRegister(address, size_bytes, 0))
        if error:
            # CUDA reports a refusal once more at the next launch, which it does not concern.
            with contextlib.suppress(RuntimeError):
                torch.zeros(1, device="cuda").add_(1)
        torch.cuda.check_error(error)

    return PageLocks(lock, runtime.cudaHostUnregister)


class OutputBuffers:
    """Page-locked host memory for the outputs of one batch's calls, reused by later calls.

    Fresh pageable memory faults on each page: 1.8 GB/s for outputs of 182 MB on an H200. There are
    two sets in turn, so that a call may begin before the outputs of the one before are read.
    """

    def __init__(self) -> None:
        #: by output: what its tensor on the device looked like, and the memory for it
        self._sets: tuple[dict[str, tuple[Layout, torch.Tensor]], ...] = ({}, {})
        self._calls = 0

    def begin_fetch(self, outputs: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Begin to copy `outputs` on the current stream; return their tensors on the host.

        They are valid until the second next call. bfloat16, which NumPy lacks, becomes float32.
        """
        buffers = self._sets[self._calls % len(self._sets)]
        self._calls += 1
        return {
            name: _begin_copy(name, tensor.detach(), buffers) for name, tensor in outputs.items()
        }


def _begin_copy(
    name: str, tensor: torch.Tensor, buffers: dict[str, tuple[Layout, torch.Tensor]]
) -> torch.Tensor:
    """Begin to copy an output into its buffer, made anew where the output looks different."""
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    if not tensor.is_cuda:
        return tensor
    layout = tensor.shape, tensor.stride(), tensor.dtype
    known_layout, buffer = buffers.get(name, (None, tensor))
    if layout != known_layout:
        buffer = torch.empty_like(tensor, device="cpu", pin_memory=True)
        buffers[name] = layout, buffer
    return buffer.copy_(tensor, non_blocking=True)
