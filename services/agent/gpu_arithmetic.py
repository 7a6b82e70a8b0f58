"""Products and copies on a GPU with PyTorch, with JAX, and copies alone with CUDA's driver.

What `gpu_roof` measures with. Times are of the GPU's own events, or, with JAX, from the first call
until the last result is there.
"""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from types import MappingProxyType
from typing import Any

Act = Callable[[int], float]
"""Does its work so many times, and returns how many seconds all of it took."""

BYTES: Mapping[str, int] = MappingProxyType(
    {"float64": 8, "float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2, "int8": 4}
)
"""Bytes of a number of a product; int8's results are int32."""
LEAST_CAPABILITY: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"tf32": (8, 0), "bfloat16": (8, 0), "float16": (5, 3), "int8": (7, 2)}
)
"""Of CUDA's table of arithmetic and tensor cores by compute capability (CUDA C++ Programming
Guide, "Compute Capabilities"): below it there is none, or emulation."""


class WithTorch:
    """PyTorch on one GPU. Raises ImportError, RuntimeError where it sees none."""

    precisions: Sequence[str] = tuple(BYTES)

    def __init__(self, number: int) -> None:
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError(f"PyTorch {torch.__version__} sees no GPU")
        self._torch: Any = torch
        self._place = torch.device("cuda", number)
        torch.cuda.set_device(self._place)
        known = torch.cuda.get_device_properties(self._place)
        self.library = f"PyTorch {torch.__version__}"
        self.device = known.name
        self.capability = (known.major, known.minor)

    def free_bytes(self) -> int:
        """Return how much memory is free, what PyTorch holds unused included."""
        self._torch.cuda.empty_cache()
        return int(self._torch.cuda.mem_get_info(self._place)[0])

    def product(self, precision: str, size: int) -> Act:
        """Return what multiplies two matrices of random numbers."""
        torch = self._torch
        if precision == "int8":
            left, right = (
                torch.randint(-128, 127, (size, size), dtype=torch.int8, device=self._place)
                for _ in range(2)
            )
            # cuBLASLt's int8 kernels take the second factor by columns.
            return self._timed(lambda: torch._int_mm(left, right.t()))  # noqa: SLF001
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        kind = torch.float32 if precision == "tf32" else getattr(torch, precision)
        left, right = (
            torch.randn((size, size), dtype=torch.float32, device=self._place).to(kind)
            for _ in range(2)
        )
        made = torch.empty_like(left)
        return self._timed(lambda: torch.mm(left, right, out=made))

    def copy(self, count: int) -> Act:
        """Return what copies bytes from one array to another."""
        torch = self._torch
        source = torch.ones(count // 4, dtype=torch.float32, device=self._place)
        target = torch.empty_like(source)
        return self._timed(lambda: target.copy_(source))

    def _timed(self, act: Callable[[], object]) -> Act:
        torch = self._torch

        def timed(times: int) -> float:
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            began.record()
            for _ in range(times):
                act()
            ended.record()
            torch.cuda.synchronize()
            return float(began.elapsed_time(ended)) * 1e-3

        return timed


class WithJax:
    """JAX on one GPU. Raises ImportError, RuntimeError where it sees none."""

    precisions: Sequence[str] = tuple(BYTES)

    def __init__(self, number: int) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        self._jax: Any = jax
        self._place: Any = jax.devices("gpu")[number]
        self.library = f"JAX {jax.__version__}"
        self.device = str(self._place.device_kind)
        major, _, minor = str(getattr(self._place, "compute_capability", "0.0")).partition(".")
        self.capability = (int(major or 0), int(minor or 0))

    def free_bytes(self) -> int:
        """Return how much memory JAX may still take."""
        told = self._place.memory_stats() or {}
        return int(told.get("bytes_limit", 1 << 30)) - int(told.get("bytes_in_use", 0))

    def product(self, precision: str, size: int) -> Act:
        """Return what multiplies two matrices of random numbers."""
        jax, numpy = self._jax, self._jax.numpy
        kind = {"tf32": "float32"}.get(precision, precision)
        keys = jax.random.split(jax.random.key(0))
        if precision == "int8":
            made = [jax.random.randint(key, (size, size), -128, 127, "int8") for key in keys]
        else:
            made = [jax.random.normal(key, (size, size), "float32").astype(kind) for key in keys]
        left, right = (jax.device_put(each, self._place) for each in made)
        how = {"tf32": "tensorfloat32", "float32": "highest", "float64": "highest"}
        result = "int32" if precision == "int8" else kind
        multiply = jax.jit(
            lambda a, b: numpy.matmul(
                a, b, precision=how.get(precision), preferred_element_type=result
            )
        )
        return self._timed(lambda: multiply(left, right))

    def copy(self, count: int) -> Act:
        """Return what reads an array and writes another."""
        jax = self._jax
        source = jax.device_put(jax.numpy.ones(count // 4, "float32"), self._place)
        # A plain copy may be left out; one is added on the way.
        through = jax.jit(lambda values: values + 1)
        return self._timed(lambda: through(source))

    def _timed(self, act: Callable[[], Any]) -> Act:
        def timed(times: int) -> float:
            act().block_until_ready()
            began = perf_counter()
            for _ in range(times - 1):
                act()
            act().block_until_ready()
            return perf_counter() - began

        return timed


class CudaCopy:
    """CUDA's driver by cuda-python, for the copy alone. Raises ImportError, RuntimeError."""

    precisions: Sequence[str] = ()

    def __init__(self, number: int) -> None:
        from importlib import import_module

        self._cuda: Any = import_module("cuda.bindings.driver")
        self._do(self._cuda.cuInit(0))
        place = self._do(self._cuda.cuDeviceGet(number))
        named = self._do(self._cuda.cuDeviceGetName(256, place))
        context = self._do(self._cuda.cuDevicePrimaryCtxRetain(place))
        self._do(self._cuda.cuCtxSetCurrent(context))
        self.library = "CUDA's driver"
        self.device = named.split(b"\0", 1)[0].decode()
        self.capability = (0, 0)

    def free_bytes(self) -> int:
        """Return how much of its memory is free."""
        free, _ = self._do(self._cuda.cuMemGetInfo())
        return int(free)

    def product(self, precision: str, size: int) -> Act:
        """Raise RuntimeError: the driver multiplies nothing."""
        raise RuntimeError(f"no library here multiplies {precision} of {size} x {size}")

    def copy(self, count: int) -> Act:
        """Return what copies bytes from one allocation to another."""
        cuda, do = self._cuda, self._do
        source, target = (do(cuda.cuMemAlloc(count)) for _ in range(2))
        do(cuda.cuMemsetD8(source, 1, count))
        began, ended = (do(cuda.cuEventCreate(0)) for _ in range(2))

        def timed(times: int) -> float:
            do(cuda.cuEventRecord(began, 0))
            for _ in range(times):
                do(cuda.cuMemcpyDtoDAsync(target, source, count, 0))
            do(cuda.cuEventRecord(ended, 0))
            do(cuda.cuEventSynchronize(ended))
            return float(do(cuda.cuEventElapsedTime(began, ended))) * 1e-3

        return timed

    def _do(self, answer: Any) -> Any:
        status, *given = answer
        if status != self._cuda.CUresult.CUDA_SUCCESS:
            raise RuntimeError(str(status))
        return given[0] if len(given) == 1 else tuple(given)


def library_here() -> str:
    """Return the library that would measure a GPU here, with its version; '' without any.

    Only looked up: PyTorch without GPU code says so in its version.
    """
    from services.agent.machine import package_version

    torch = package_version("torch")
    if torch and not torch.endswith("+cpu"):
        return f"torch {torch}"
    for name in ("jax-cuda13-plugin", "jax-cuda12-plugin", "cuda-bindings"):
        if version := package_version(name):
            return f"{name} {version}"
    return ""
