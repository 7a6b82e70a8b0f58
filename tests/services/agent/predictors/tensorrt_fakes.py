"""What the predictor uses of TensorRT and of CUDA's runtime, computed by the host.

An engine doubles its input. Memory of the GPU is the host's, and a stream does what waits in it
only when it is waited for.
"""

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

SHAPE = (-1, 3)
OK = SimpleNamespace(name="cudaSuccess")
REFUSED = SimpleNamespace(name="cudaErrorMemoryAllocation")


class Runtime:
    """CUDA's runtime; `refuses_locks` where the driver locks no pages."""

    cudaMemcpyKind = SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2)  # noqa: N815
    cudaError_t = SimpleNamespace(cudaSuccess=OK)  # noqa: N815
    cudaHostRegisterPortable = 1  # noqa: N815

    def __init__(self, *, refuses_locks: bool = False) -> None:
        self.refuses_locks = refuses_locks
        self.buffers: dict[int, Any] = {}
        self.locked: set[int] = set()
        self.waiting: list[tuple[str, Callable[[], object]]] = []
        #: what the stream did by each wait, in order
        self.waits: list[list[str]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a call that succeeds and does nothing."""
        if not name.startswith("cuda"):
            raise AttributeError(name)
        return lambda *_: (OK, 7)

    def cudaGetDeviceProperties(self, _: int) -> Any:  # noqa: N802
        """Return a GPU's name."""
        return OK, SimpleNamespace(name=b"a GPU")

    def cudaMalloc(self, size_bytes: int) -> Any:  # noqa: N802
        """Return the address of new memory."""
        buffer = ctypes.create_string_buffer(size_bytes)
        self.buffers[ctypes.addressof(buffer)] = buffer
        return OK, ctypes.addressof(buffer)

    def cudaFree(self, address: int) -> Any:  # noqa: N802
        """Free memory."""
        del self.buffers[address]
        return (OK,)

    def cudaHostRegister(self, address: int, *_: int) -> Any:  # noqa: N802
        """Lock pages."""
        if self.refuses_locks:
            return (REFUSED,)
        self.locked.add(address)
        return (OK,)

    def cudaHostUnregister(self, address: int) -> Any:  # noqa: N802
        """Unlock pages."""
        self.locked.remove(address)
        return (OK,)

    def cudaMemcpyAsync(self, *copy: Any) -> Any:  # noqa: N802
        """Queue a copy."""
        target, source, size_bytes, kind, _ = copy
        name = "in" if kind == 1 else "out"
        self.waiting.append((name, lambda: ctypes.memmove(target, source, size_bytes)))
        return (OK,)

    def cudaStreamSynchronize(self, _: int) -> Any:  # noqa: N802
        """Do what waits."""
        names = []
        for name, work in self.waiting:
            work()
            names.append(name)
        self.waits.append(names)
        self.waiting.clear()
        return (OK,)


class Context:
    """An execution context of the engine that doubles."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._shape: tuple[int, ...] = ()
        self._addresses: dict[str, int] = {}

    def set_input_shape(self, _: str, shape: tuple[int, ...]) -> bool:
        """Take the shape of a batch."""
        self._shape = shape
        return shape[1:] == SHAPE[1:]

    def get_tensor_shape(self, _: str) -> tuple[int, ...]:
        """Return the shape of any tensor."""
        return self._shape

    def set_tensor_address(self, name: str, address: int) -> None:
        """Take where a tensor is."""
        self._addresses[name] = address

    def execute_async_v3(self, _: int) -> bool:
        """Queue the computing."""
        self._runtime.waiting.append(("engine", self._double))
        return True

    def _double(self) -> None:
        kind = ctypes.c_float * int(np.prod(self._shape))
        x, y = (np.ctypeslib.as_array(kind.from_address(self._addresses[name])) for name in "xy")
        y[:] = 2 * x


class Engine:
    """The engine: input x, output y."""

    num_io_tensors, device_memory_size_v2 = 2, 4096

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def create_execution_context(self) -> Context:
        """Return a context."""
        return Context(self._runtime)

    def get_tensor_name(self, number: int) -> str:
        """Return a tensor's name."""
        return "xy"[number]

    def get_tensor_mode(self, name: str) -> str:
        """Say whether it is an input."""
        return "in" if name == "x" else "out"

    def get_tensor_shape(self, _: str) -> tuple[int, ...]:
        """Return its shape, with a free batch."""
        return SHAPE

    def get_tensor_dtype(self, _: str) -> str:
        """Return its type."""
        return "float32"

    def get_tensor_profile_shape(self, *_: Any) -> tuple[tuple[int, ...], ...]:
        """Return the smallest, the best and the largest shape."""
        return (1, 3), (4, 3), (8, 3)


def tensorrt_of(runtime: Runtime) -> SimpleNamespace:
    """Return the module `tensorrt`, whose engines compute with a `runtime`."""
    loader = SimpleNamespace(deserialize_cuda_engine=lambda _: Engine(runtime))
    return SimpleNamespace(
        __version__="10.0",
        Logger=type("Logger", (), {"ERROR": 1, "__init__": lambda *_: None}),
        Runtime=lambda _: loader,
        TensorIOMode=SimpleNamespace(INPUT="in"),
        nptype=np.dtype,
    )
