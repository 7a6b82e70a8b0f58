"""Page locks by CUDA's runtime, for frameworks that do not offer them; needs cuda-python."""

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
