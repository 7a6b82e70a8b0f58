"""A network whose layers' lengths are known: each launches kernels that spin, and waits.

A layer is so many launches of one short kernel, so that what tracing costs, which is so much a
launch, is a share of its length that matters.

The kernel counts the multiprocessor's clock (`clock64`), whose rate is measured against the wall
in `calibrated_hz`; it is compiled by NVRTC and launched through cuda-python on torch's stream.
"""

import ctypes
import statistics
from collections.abc import Sequence
from functools import lru_cache
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor, nn

_SOURCE = b"""
extern "C" __global__ void spin(long long cycles) {
    long long began = clock64();
    while (clock64() - began < cycles) {}
}
"""


class SpinFailed(RuntimeError):
    """The driver refused to build or launch the spinning kernel."""


@lru_cache(maxsize=1)
def spin_kernel() -> Any:
    """Return the kernel's function in the current context."""
    from cuda.bindings import driver, nvrtc

    torch.zeros(1, device="cuda")
    major, minor = torch.cuda.get_device_capability()
    program = _checked(nvrtc.nvrtcCreateProgram(_SOURCE, b"spin.cu", 0, [], []))
    target = f"--gpu-architecture=sm_{major}{minor}".encode()
    _checked(nvrtc.nvrtcCompileProgram(program, 1, [target]))
    binary = b" " * _checked(nvrtc.nvrtcGetCUBINSize(program))
    _checked(nvrtc.nvrtcGetCUBIN(program, binary))
    module = _checked(driver.cuModuleLoadData(binary))
    return _checked(driver.cuModuleGetFunction(module, b"spin"))


def _checked(answer: tuple[Any, ...]) -> Any:
    error, *results = answer
    if int(error) != 0:
        raise SpinFailed(str(error))
    return results[0] if results else None


SPIN_US = 1.0
"""One kernel's length."""


@lru_cache(maxsize=8)
def _arguments(cycles: int) -> tuple[Any, Any]:
    """Return a launch's argument and the array that points at it, made once."""
    value = ctypes.c_longlong(cycles)
    return value, (ctypes.c_void_p * 1)(ctypes.addressof(value))


def launch(cycles: int, times: int = 1) -> None:
    """Launch a spin of so many cycles on torch's stream some times, and wait for it."""
    from cuda.bindings import driver

    kernel, stream = spin_kernel(), torch.cuda.current_stream().cuda_stream
    arguments = ctypes.addressof(_arguments(cycles)[1])
    begin = driver.cuLaunchKernel
    for _ in range(times):
        begin(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, 0)
    _checked(driver.cuStreamSynchronize(stream))


def calibrated_hz() -> float:
    """Return the clock's rate: the slope of wall time over cycles, between two long spins."""
    short, long = 200_000, 2_000_000
    (short_ns,), (long_ns,) = known_ns(short, [1], 40), known_ns(long, [1], 40)
    return (long - short) / (long_ns - short_ns) * 1e9


def known_ns(cycles: int, times: Sequence[int], repeats: int = 20) -> list[float]:
    """Return what each layer takes outside of any module, in the network's order: medians."""
    times_ns: list[list[int]] = [[] for _ in times]
    for _ in range(repeats + 1):
        for layer_times, spent in zip(times, times_ns, strict=True):
            began = perf_counter_ns()
            launch(cycles, layer_times)
            spent.append(perf_counter_ns() - began)
    return [statistics.median(spent[1:]) for spent in times_ns]


class Spin(nn.Module):
    """One layer of known length."""

    def __init__(self, cycles: int, times: int) -> None:
        super().__init__()
        self.cycles, self.times = cycles, times

    def forward(self, values: Tensor) -> Tensor:
        """Spin, and hand the values on."""
        launch(self.cycles, self.times)
        return values


def network(cycles: int, times: Sequence[int]) -> nn.Module:
    """Return a network of such layers: one for each number of launches."""
    return nn.Sequential(*(Spin(cycles, layer) for layer in times))
