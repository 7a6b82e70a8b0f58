"""Matrix products and copies on a GPU with PyTorch or JAX, and copies with CUDA's driver.

`gpu_roof` measures with them. Times are between the GPU's own events or, with JAX, from the first
call until the last result is there.
"""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from types import MappingProxyType
from typing import Any

TimedWork = Callable[[int], float]
"""Repeats its work a number of times, and returns how many seconds that took in all."""

BYTES: Mapping[str, int] = MappingProxyType(
    {"float64": 8, "float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2, "int8": 4}
)
"""Bytes of one number of a product's factors; the results of int8 are int32."""
LEAST_CAPABILITY: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"tf32": (8, 0), "bfloat16": (8, 0), "float16": (5, 3), "int8": (7, 2)}
)
"""Least compute capability with this arithmetic; below it there is none, or an emulation.

CUDA C++ Programming Guide, "Compute Capabilities".
"""


class WithTorch:
    """PyTorch on one GPU. Raises ImportError, and RuntimeError where it sees no GPU."""

    precisions: Sequence[str] = tuple(BYTES)

    def __init__(self, number: int) -> None:
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError(f"PyTorch {torch.__version__} sees no GPU")
        self._torch: Any = torch
        self._device = torch.device("cuda", number)
        torch.cuda.set_device(self._device)
        properties = torch.cuda.get_device_properties(self._device)
        self.library = f"PyTorch {torch.__version__}"
        self.device = properties.name
        self.capability = (properties.major, properties.minor)

    def free_bytes(self) -> int:
        """Return the free bytes of memory, including what PyTorch holds unused."""
        self._torch.cuda.empty_cache()
        return int(self._torch.cuda.mem_get_info(self._device)[0])

    def product(self, precision: str, size: int) -> TimedWork:
        """Return the product of two `size` x `size` matrices of random numbers in a `precision`."""
        torch = self._torch
        if precision == "int8":
            first, second = (
                torch.randint(-128, 127, (size, size), dtype=torch.int8, device=self._device)
                for _ in range(2)
            )
            # cuBLASLt's int8 kernels take the second factor by columns.
            return self._timed(lambda: torch._int_mm(first, second.t()))  # noqa: SLF001
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        kind = torch.float32 if precision == "tf32" else getattr(torch, precision)
        first, second = (
            torch.randn((size, size), dtype=torch.float32, device=self._device).to(kind)
            for _ in range(2)
        )
        result = torch.empty_like(first)
        return self._timed(lambda: torch.mm(first, second, out=result))

    def copy(self, count: int) -> TimedWork:
        """Return the copy of `count` bytes from one array to another."""
        torch = self._torch
        source = torch.ones(count // 4, dtype=torch.float32, device=self._device)
        target = torch.empty_like(source)
        return self._timed(lambda: target.copy_(source))

    def _timed(self, work: Callable[[], object]) -> TimedWork:
        torch = self._torch

        def timed(times: int) -> float:
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            began.record()
            for _ in range(times):
                work()
            ended.record()
            torch.cuda.synchronize()
            return float(began.elapsed_time(ended)) * 1e-3

        return timed


class WithJax:
    """JAX on one GPU. Raises ImportError, and RuntimeError where it sees no GPU."""

    precisions: Sequence[str] = tuple(BYTES)

    def __init__(self, number: int) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        self._jax: Any = jax
        self._device: Any = jax.devices("gpu")[number]
        self.library = f"JAX {jax.__version__}"
        self.device = str(self._device.device_kind)
        major, _, minor = str(getattr(self._device, "compute_capability", "0.0")).partition(".")
        self.capability = (int(major or 0), int(minor or 0))

    def free_bytes(self) -> int:
        """Return how many bytes of memory JAX may still allocate."""
        statistics = self._device.memory_stats() or {}
        limit = int(statistics.get("bytes_limit", 1 << 30))
        return limit - int(statistics.get("bytes_in_use", 0))

    def product(self, precision: str, size: int) -> TimedWork:
        """Return the product of two `size` x `size` matrices of random numbers in a `precision`."""
        jax, numpy = self._jax, self._jax.numpy
        kind = {"tf32": "float32"}.get(precision, precision)
        keys = jax.random.split(jax.random.key(0))
        if precision == "int8":
            factors = [jax.random.randint(key, (size, size), -128, 127, "int8") for key in keys]
        else:
            factors = [jax.random.normal(key, (size, size), "float32").astype(kind) for key in keys]
        first, second = (jax.device_put(factor, self._device) for factor in factors)
        jax_precisions = {"tf32": "tensorfloat32", "float32": "highest", "float64": "highest"}
        result = "int32" if precision == "int8" else kind
        multiply = jax.jit(
            lambda a, b: numpy.matmul(
                a, b, precision=jax_precisions.get(precision), preferred_element_type=result
            )
        )
        return self._timed(lambda: multiply(first, second))

    def copy(self, count: int) -> TimedWork:
        """Return the copy of `count` bytes from one array to another."""
        jax = self._jax
        source = jax.device_put(jax.numpy.ones(count // 4, "float32"), self._device)
        # XLA may drop a plain copy: add one to every number.
        copy_plus_one = jax.jit(lambda values: values + 1)
        return self._timed(lambda: copy_plus_one(source))

    def _timed(self, work: Callable[[], Any]) -> TimedWork:
        def timed(times: int) -> float:
            work().block_until_ready()
            began = perf_counter()
            for _ in range(times - 1):
                work()
            work().block_until_ready()
            return perf_counter() - began

        return timed


class CudaCopy:
    """CUDA's driver by cuda-python, for copies only. Raises ImportError, RuntimeError."""

    precisions: Sequence[str] = ()

    def __init__(self, number: int) -> None:
        from importlib import import_module

        self._cuda: Any = import_module("cuda.bindings.driver")
        self._checked(self._cuda.cuInit(0))
        device = self._checked(self._cuda.cuDeviceGet(number))
        name = self._checked(self._cuda.cuDeviceGetName(256, device))
        context = self._checked(self._cuda.cuDevicePrimaryCtxRetain(device))
        self._checked(self._cuda.cuCtxSetCurrent(context))
        self.library = "CUDA's driver"
        self.device = name.split(b"\0", 1)[0].decode()
        self.capability = (0, 0)

    def free_bytes(self) -> int:
        """Return the free bytes of its memory."""
        free, _ = self._checked(self._cuda.cuMemGetInfo())
        return int(free)

    def product(self, precision: str, size: int) -> TimedWork:
        """Raise RuntimeError: the driver can't multiply in any `precision` or `size`."""
        raise RuntimeError(f"no library here multiplies {precision} of {size} x {size}")

    def copy(self, count: int) -> TimedWork:
        """Return the copy of `count` bytes from one allocation to another."""
        cuda, checked = self._cuda, self._checked
        source, target = (checked(cuda.cuMemAlloc(count)) for _ in range(2))
        checked(cuda.cuMemsetD8(source, 1, count))
        began, ended = (checked(cuda.cuEventCreate(0)) for _ in range(2))

        def timed(times: int) -> float:
            checked(cuda.cuEventRecord(began, 0))
            for _ in range(times):
                checked(cuda.cuMemcpyDtoDAsync(target, source, count, 0))
            checked(cuda.cuEventRecord(ended, 0))
            checked(cuda.cuEventSynchronize(ended))
            return float(checked(cuda.cuEventElapsedTime(began, ended))) * 1e-3

        return timed

    def _checked(self, answer: Any) -> Any:
        """Return the results of a call. Raises RuntimeError where its status is no success."""
        status, *results = answer
        if status != self._cuda.CUresult.CUDA_SUCCESS:
            raise RuntimeError(str(status))
        return results[0] if len(results) == 1 else tuple(results)


def installed_gpu_library() -> str:
    """Return the name and version of the library that would measure a GPU here; '' without one.

    It is not imported: PyTorch without GPU code says so in its version.
    """
    from services.agent.machine.hardware import package_version

    torch = package_version("torch")
    if torch and not torch.endswith("+cpu"):
        return f"torch {torch}"
    for name in ("jax-cuda13-plugin", "jax-cuda12-plugin", "cuda-bindings"):
        if version := package_version(name):
            return f"{name} {version}"
    return ""
