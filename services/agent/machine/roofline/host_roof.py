"""Measures the host's roof: matrix products and copies by 1, 2, 4 … threads up to all usable cores.

    python -m services.agent.machine.roofline.host_roof [few-bits]

With `few-bits` also products of bfloat16, float16 and int8, which need PyTorch and some seconds.
The host's `roofs` starts it as a process of its own, so that its memory does not count as a
worker's. Each thread multiplies alone, in a library held to one thread: this is what so many cores
can reach, however well a framework distributes its work. Each figure is the best of a few tries.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter_ns

from schemas.run import Ceiling
from services.agent.machine.noise import noise_between, read_machine
from services.agent.machine.quotas import usable_cores
from services.agent.machine.roofline.ceilings import Roof
from services.agent.machine.roofline.host_arithmetic import (
    INSTRUCTIONS,
    SIZES,
    missing_reason,
    products,
)

SIZE = 512
"""Rows and columns of a product's factors: 2 * SIZE^3 FLOP."""
PRODUCTS = 2
"""Products of each thread in a try."""
COPIED_BYTES = 128 << 20
"""Copied from one array to another by all threads together; each byte is read and written."""
TRIES = 6
LOW_PRECISION_FLAG = "few-bits"
NOT_ASKED = "no manifest or option of a model that ran here names it"
_ONE_THREAD = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
Work = Callable[[], object]


def measure_host(cores: int, *, low_precision: bool = False) -> Roof:
    """Measure FLOP/s and bytes/s on up to `cores` threads. Raises MemoryError.

    `low_precision` adds precisions below 32 bits.
    """
    counts, before = list(thread_counts(cores)), read_machine()
    peaks = {
        name: {threads: product_peak(name, threads) for threads in counts}
        for name in ("float32", "float64")
    }
    missing = dict.fromkeys(INSTRUCTIONS, NOT_ASKED)
    if low_precision:
        low_peaks, missing = low_precision_peaks(counts)
        peaks |= low_peaks
    bandwidths = copy_bandwidths(counts)
    noise = noise_between(before, read_machine())
    return Roof(
        "cpu",
        peaks=peaks,
        bandwidths=bandwidths,
        others=noise.get("others_cpu_s", 0.0) / (noise["elapsed_s"] * noise["cores"]),
        missing=missing,
    )


def thread_counts(cores: int) -> Iterator[int]:
    """Yield 1, 2, 4 … and `cores`."""
    threads = 1
    while threads < cores:
        yield threads
        threads *= 2
    yield cores


def product_peak(precision: str, threads: int) -> Ceiling:
    """Return the FLOP/s of threads that multiply with NumPy, in float32 or float64."""
    import numpy as np

    def multiply(factor: object, result: object) -> None:
        for _ in range(PRODUCTS):
            np.matmul(factor, factor, out=result)  # type: ignore[call-overload]

    factor = np.ones((SIZE, SIZE), precision)
    best_ns = best_parallel_ns(
        [partial(multiply, factor, np.empty_like(factor)) for _ in range(threads)]
    )
    method = f"{precision} products of {SIZE} x {SIZE} on {threads} threads, best of {TRIES}"
    flops = 2.0 * SIZE**3 * PRODUCTS * threads
    return Ceiling(measured=flops / best_ns * 1e9, method=method)


def low_precision_peaks(
    counts: list[int],
) -> tuple[dict[str, dict[int, Ceiling]], dict[str, str]]:
    """Return peaks by precision below 32 bits and threads, and why other precisions have none."""
    peaks, missing = dict[str, dict[int, Ceiling]](), dict[str, str]()
    for name in INSTRUCTIONS:
        if reason := missing_reason(name):
            missing[name] = reason
            continue
        try:
            peaks[name] = {threads: _low_precision_peak(name, threads) for threads in counts}
        except (ImportError, OSError, RuntimeError) as error:
            missing[name] = f"PyTorch could not multiply them: {str(error).splitlines()[0]}"
    return peaks, missing


def _low_precision_peak(precision: str, threads: int) -> Ceiling:
    """Return the FLOP/s, for int8 operations a second, of threads that multiply with PyTorch.

    Raises PyTorch's error where it has no such product.
    """
    rates = {}
    for size in SIZES:
        works = products(precision, size, threads)
        works[0]()  # its error would be lost in another thread
        rates[size] = 2.0 * size**3 * threads / best_parallel_ns(works) * 1e9
    size = max(rates, key=lambda size: rates[size])
    conditions = f"on {threads} threads by PyTorch, best of {TRIES}"
    method = f"{precision} products of {size} x {size} {conditions}"
    return Ceiling(measured=rates[size], method=method)


def copy_bandwidths(counts: list[int]) -> dict[int, Ceiling]:
    """Return the bytes/s of copies by each of these numbers of threads: bytes read and written."""
    import numpy as np

    source = np.ones(COPIED_BYTES // 8, np.float64)
    target = np.zeros_like(source)
    target.fill(0.0)
    bandwidths = {}
    for threads in counts:
        parts = zip(np.array_split(target, threads), np.array_split(source, threads), strict=True)
        best_ns = best_parallel_ns([partial(np.copyto, *pair) for pair in parts])
        method = f"copy of {COPIED_BYTES} bytes on {threads} threads, best of {TRIES}"
        bandwidths[threads] = Ceiling(measured=2.0 * COPIED_BYTES / best_ns * 1e9, method=method)
    return bandwidths


def best_parallel_ns(works: list[Work]) -> int:
    """Return the least time of a few tries, from the first begin to the last end, in ns.

    Each work has a thread of its own, and all begin each try together. One try before warms up.
    """
    barrier = threading.Barrier(len(works))
    stamps: list[list[tuple[int, int]]] = [[] for _ in works]

    def repeat(work: Work, own_stamps: list[tuple[int, int]]) -> None:
        for _ in range(TRIES + 1):
            barrier.wait()
            began = perf_counter_ns()
            work()
            own_stamps.append((began, perf_counter_ns()))

    pairs = zip(works, stamps, strict=True)
    threads = [threading.Thread(target=repeat, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tries = list(zip(*stamps, strict=True))[1:]
    spans: list[int] = [
        max(end for _, end in stamps) - min(began for began, _ in stamps) for stamps in tries
    ]
    return max(min(spans), 1)


def main() -> None:
    """Measure the host and print its roof as JSON."""
    # Before NumPy is imported: it reads these once.
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        roof = measure_host(usable_cores(), low_precision=LOW_PRECISION_FLAG in sys.argv[1:])
    except MemoryError as error:
        sys.exit(f"no memory: {error}")
    sys.stdout.write(json.dumps(roof.to_dict()))


if __name__ == "__main__":
    main()
