"""Measures the host's roof: matrix products and copies by 1, 2, 4 … threads up to all usable cores.

    python -m services.agent.machine.roofline.host_roof [few-bits]

With `few-bits` also products of bfloat16, float16 and int8, which need PyTorch and some seconds.
The host's `roofs` starts it as a process of its own, so that its memory does not count as a
worker's. Each thread multiplies alone, in a library held to one thread: this is what so many cores
can reach, however well a framework distributes its work. Each figure is the best of a few tries,
with the spread of the tries and the conditions of the machine.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from time import perf_counter_ns, time_ns
from types import MappingProxyType
from typing import Any

from schemas.run import Ceiling
from services.agent.machine.noise import noise_between, others_share, read_machine
from services.agent.machine.quotas import usable_cores
from services.agent.machine.roofline.ceilings import (
    Roof,
    disturbance_by_others,
    disturbance_in_tries,
    measured_ceiling,
)
from services.agent.machine.roofline.host_arithmetic import (
    INSTRUCTIONS,
    SIZES,
    missing_reason,
    products,
)

PRODUCTS: Mapping[int, int] = MappingProxyType({256: 8, 512: 1})
"""By rows and columns of a product's factors, how many products a thread makes in a try.

Which size comes nearer to the processor's limit differs. Tries are short, so that some of them are
not interrupted where other processes use the cores.
"""
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
    roof = Roof("cpu", peaks=peaks, bandwidths=copy_bandwidths(counts), missing=missing)
    return with_conditions(roof, noise_between(before, read_machine()))


def with_conditions(roof: Roof, noise: Mapping[str, Any]) -> Roof:
    """Return a host's roof with when, and under which conditions (`noise_between`), it is so."""
    share_of_others = others_share(noise)
    if share_of_others is None:
        disturbance = disturbance_in_tries(roof)
    else:
        disturbance = disturbance_by_others(share_of_others, "the cores")
    names = ("load_average_end", "cpu_governor", "cpu_khz")
    conditions = {"others": share_of_others} | {
        name: noise[name] for name in names if name in noise
    }
    changed = roof.with_changes(
        measured_ns=time_ns(), measurements=1, conditions=conditions, disturbance=disturbance
    )
    return replace(changed, disturbance=disturbance)


def thread_counts(cores: int) -> Iterator[int]:
    """Yield 1, 2, 4 … and `cores`."""
    threads = 1
    while threads < cores:
        yield threads
        threads *= 2
    yield cores


def product_peak(precision: str, threads: int) -> Ceiling:
    """Return the FLOP/s of threads that multiply with NumPy, in float32 or float64.

    It is that of the faster size.
    """
    by_size = (_product_peak(precision, size, threads) for size in PRODUCTS)
    return max(by_size, key=lambda ceiling: ceiling.measured or 0.0)


def _product_peak(precision: str, size: int, threads: int) -> Ceiling:
    import numpy as np

    def multiply(factor: object, result: object) -> None:
        for _ in range(PRODUCTS[size]):
            np.matmul(factor, factor, out=result)  # type: ignore[call-overload]

    factor = np.ones((size, size), precision)
    tries_s = parallel_tries_s(
        [partial(multiply, factor, np.empty_like(factor)) for _ in range(threads)]
    )
    method = f"{precision} products of {size} x {size} on {threads} threads"
    return measured_ceiling(2.0 * size**3 * PRODUCTS[size] * threads, tries_s, method)


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
    by_size = []
    for size in SIZES:
        works = products(precision, size, threads)
        works[0]()  # its error would be lost in another thread
        method = f"{precision} products of {size} x {size} on {threads} threads by PyTorch"
        flops = 2.0 * size**3 * threads
        by_size.append(measured_ceiling(flops, parallel_tries_s(works), method))
    return max(by_size, key=lambda ceiling: ceiling.measured or 0.0)


def copy_bandwidths(counts: list[int]) -> dict[int, Ceiling]:
    """Return the bytes/s of copies by each of these numbers of threads: bytes read and written."""
    import numpy as np

    source = np.ones(COPIED_BYTES // 8, np.float64)
    target = np.zeros_like(source)
    target.fill(0.0)
    bandwidths = {}
    for threads in counts:
        parts = zip(np.array_split(target, threads), np.array_split(source, threads), strict=True)
        tries_s = parallel_tries_s([partial(np.copyto, *pair) for pair in parts])
        method = f"copy of {COPIED_BYTES} bytes on {threads} threads"
        bandwidths[threads] = measured_ceiling(2.0 * COPIED_BYTES, tries_s, method)
    return bandwidths


def parallel_tries_s(works: list[Work]) -> list[float]:
    """Return the times of a few tries, each from the first begin to the last end, in seconds.

    Each work has a thread of its own, and all begin each try together. One try before warms up.
    """
    barrier = threading.Barrier(len(works))

    def stamps_of(work: Work) -> list[tuple[int, int]]:
        stamps = []
        for _ in range(TRIES + 1):
            barrier.wait()
            began = perf_counter_ns()
            work()
            stamps.append((began, perf_counter_ns()))
        return stamps

    with ThreadPoolExecutor(len(works)) as pool:
        tries = list(zip(*pool.map(stamps_of, works), strict=True))[1:]
    return [
        (max(end for _, end in stamps) - min(began for began, _ in stamps)) * 1e-9
        for stamps in tries
    ]


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
