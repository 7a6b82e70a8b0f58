"""Measures a GPU's roof: large matrix products in each precision, and a large copy.

    python -m services.agent.machine.roofline.gpu_roof [NUMBER [UUID]]

NUMBER is CUDA's number of the GPU in this environment, UUID its id in NVML, which tells what else
the GPU does meanwhile. It measures with PyTorch, else JAX; where
neither sees the GPU, the copy only, with CUDA's driver. The host's `roofs` starts it as a process
of its own, so that no run finds the GPU's memory or caches changed. Factors are random numbers,
because a GPU draws less power on zeros and so runs faster. It takes a few seconds, and the import
of the library.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import time_ns
from typing import Protocol, TypeVar

from schemas.run import Ceiling
from services.agent.machine.roofline.ceilings import (
    ALL_THREADS,
    PRECISIONS,
    Roof,
    disturbance_by_others,
    disturbance_in_tries,
    measured_ceiling,
)
from services.agent.machine.roofline.gpu_arithmetic import (
    BYTES,
    LEAST_CAPABILITY,
    CudaCopy,
    TimedWork,
    WithJax,
    WithTorch,
)
from services.agent.machine.roofline.gpu_watch import GpuWatch

LEAST_SIZE, MOST_SIZE = 1024, 8192
"""Rows and columns of a product's factors: doubled from the least until it takes long enough."""
LONG_S = 0.06
"""Seconds; a size is not doubled, to eight times the work, where that would take longer."""
TRY_S = 0.02
"""Seconds; a try repeats its product or copy for about as long."""
TRIES = 5
MOST_COPIED_BYTES = 2 << 30
LEAST_COPIED_BYTES = 64 << 20
"""Fewer bytes may lie in a GPU's cache."""
_MOST_REASON_CHARACTERS = 160


class GpuLibrary(Protocol):
    """A library that multiplies and copies on one GPU. Its functions may raise RuntimeError."""

    @property
    def library(self) -> str:
        """Its name and version."""
        ...

    @property
    def device(self) -> str:
        """The GPU's name."""
        ...

    @property
    def capability(self) -> tuple[int, int]:
        """The GPU's compute capability, as (9, 0)."""
        ...

    @property
    def precisions(self) -> Sequence[str]:
        """The precisions it can multiply in."""
        ...

    def free_bytes(self) -> int:
        """Return the free bytes of the GPU's memory."""
        ...

    def product(self, precision: str, size: int) -> TimedWork:
        """Return the product of two `size` x `size` matrices in a `precision`."""
        ...

    def copy(self, count: int) -> TimedWork:
        """Return the copy of `count` bytes."""
        ...


Subject = TypeVar("Subject")
OpenLibrary = Callable[[int], GpuLibrary]
LIBRARIES: tuple[OpenLibrary, ...] = (WithTorch, WithJax, CudaCopy)


def measure_watched(
    number: int, uuid: str = "", libraries: Sequence[OpenLibrary] = LIBRARIES
) -> Roof:
    """Return the roof that `measure_gpu` measures of GPU `number`, and under which conditions.

    NVML knows the GPU by its `uuid`; `libraries` are as there.
    """
    with GpuWatch(uuid) as watch:
        roof = measure_gpu(number, libraries)
        watch.read_use_again()
    disturbance = disturbance_by_others(watch.others, "the GPU")
    if watch.slowdowns:
        disturbance = disturbance or f"the GPU lowered its clocks ({', '.join(watch.slowdowns)})"
    disturbance = disturbance or disturbance_in_tries(roof)
    changed = roof.with_changes(
        measured_ns=time_ns(), measurements=1, conditions=watch.conditions, disturbance=disturbance
    )
    return replace(changed, disturbance=disturbance)


def measure_gpu(number: int, libraries: Sequence[OpenLibrary] = LIBRARIES) -> Roof:
    """Measure GPU `number` with the first of the `libraries` that sees it; else return a note."""
    refusals: dict[OpenLibrary, str] = {}
    for open_library in libraries:
        with _errors_noted(refusals, open_library):
            library = open_library(number)
            break
    else:
        reasons = "; ".join(f"{tried.__name__}: {reason}" for tried, reason in refusals.items())
        return Roof(note=f"no roof of the GPU was measured: {reasons}")
    return measure_with(library)


def measure_with(library: GpuLibrary) -> Roof:
    """Measure a library's GPU; what can't be measured has a reason in `missing`."""
    peaks: dict[str, Mapping[int, Ceiling]] = {}
    bandwidths: dict[int, Ceiling] = {}
    missing: dict[str, str] = {}
    for precision in PRECISIONS:
        if precision not in library.precisions:
            missing[precision] = f"not measured with {library.library}"
            continue
        if library.capability < LEAST_CAPABILITY.get(precision, (0, 0)):
            capability = ".".join(map(str, library.capability))
            missing[precision] = f"compute capability {capability} has none"
            continue
        with _errors_noted(missing, precision):  # out of memory, or no such kernel
            peaks[precision] = {ALL_THREADS: product_peak(library, precision)}
    with _errors_noted(missing, "copy"):
        bandwidths[ALL_THREADS] = copy_bandwidth(library)
    return Roof("gpu", library.device, peaks, bandwidths, missing)


def product_peak(library: GpuLibrary, precision: str) -> Ceiling:
    """Return the FLOP/s of matrix products in a precision: 2 * size^3 a product.

    Raises what the library raises, as where its GPU has no memory for the factors.
    """
    size, most_bytes = LEAST_SIZE, library.free_bytes() // 2
    while True:
        multiply = library.product(precision, size)
        multiply(2)
        product_s = multiply(3) / 3
        # All doublings at once, as JAX compiles each size anew.
        larger, larger_s = size, product_s
        while (
            larger < MOST_SIZE
            and 8 * larger_s <= LONG_S
            and 12 * BYTES[precision] * larger**2 <= most_bytes
        ):
            larger, larger_s = 2 * larger, 8 * larger_s
        if larger == size:
            break
        size = larger
    method = f"{precision} products of {size} x {size}, {library.library}"
    return measured_ceiling(2.0 * size**3, _tries_s(multiply, product_s), method)


def copy_bandwidth(library: GpuLibrary) -> Ceiling:
    """Return the bytes/s of a copy: each byte copied is read and written.

    Raises RuntimeError where too little of the GPU's memory is free, and what the library raises.
    """
    count = min(MOST_COPIED_BYTES, library.free_bytes() // 4) >> 20 << 20
    if count < LEAST_COPIED_BYTES:
        raise RuntimeError(f"{library.free_bytes()} bytes of its memory are free")
    copy = library.copy(count)
    copy(2)
    method = f"copy of {count} bytes, {library.library}"
    return measured_ceiling(2.0 * count, _tries_s(copy, copy(3) / 3), method)


def _tries_s(work: TimedWork, work_s: float) -> list[float]:
    """Return the time of some work in each try, in seconds; a try repeats it for about `TRY_S`."""
    times = max(1, min(100, round(TRY_S / max(work_s, 1e-6))))
    return [work(times) / times for _ in range(TRIES)]


@contextmanager
def _errors_noted(reasons: dict[Subject, str], subject: Subject) -> Iterator[None]:
    """Run a library's code; where it fails, the first line of its error is the subject's reason.

    Libraries raise errors of any class: RuntimeError, ImportError, their own.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001
        lines = str(error).strip().splitlines()
        reasons[subject] = (lines[0] if lines else type(error).__name__)[:_MOST_REASON_CHARACTERS]


def main(arguments: Sequence[str]) -> None:
    """Measure the GPU of a number (default 0) and a UUID, the `arguments`; print its roof."""
    number = int(arguments[0]) if arguments else 0
    uuid = arguments[1] if len(arguments) > 1 else ""
    sys.stdout.write(json.dumps(measure_watched(number, uuid).to_dict()))


if __name__ == "__main__":
    main(sys.argv[1:])
