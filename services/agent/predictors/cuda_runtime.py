"""Page locks and copies by CUDA's runtime, for frameworks without them; needs cuda-python."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from services.agent.predictors.page_locking import PageLocks

NO_LOCKS = "the package cuda-python, which locks pages, is not installed"
"""Why memory is pageable where `cuda_page_locks` returns None."""


def cuda_page_locks() -> PageLocks | None:
    """Return page locks by CUDA's runtime; None without cuda-python.

    They hold for every context of this process, so for any framework's copies.
    """
    try:
        runtime: Any = import_module("cuda.bindings.runtime")
    except ImportError:
        return None

    def lock(address: int, size_bytes: int) -> None:
        (error,) = runtime.cudaHostRegister(address, size_bytes, runtime.cudaHostRegisterPortable)
        if error != runtime.cudaError_t.cudaSuccess:
            runtime.cudaGetLastError()  # or the framework's next call would report it
            raise RuntimeError(f"CUDA: {error.name}")

    return PageLocks(lock, runtime.cudaHostUnregister)


def cuda_copy_out() -> Callable[[int, int, int], None] | None:
    """Return a copy from a GPU's memory to the host's, `(to, from, bytes)`; or None.

    None without cuda-python. The copy returns when the bytes are there. It
    raises RuntimeError where CUDA cannot copy.
    """
    try:
        runtime: Any = import_module("cuda.bindings.runtime")
    except ImportError:
        return None
    kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost

    def copy_out(target: int, source: int, size_bytes: int) -> None:
        (error,) = runtime.cudaMemcpy(target, source, size_bytes, kind)
        if error != runtime.cudaError_t.cudaSuccess:
            raise RuntimeError(f"CUDA: {error.name}")

    return copy_out
