"""The host's roof, measured: products and copies by 1, 2, 4 … threads, up to all usable cores.

    python -m services.agent.host_roof [few-bits]

With `few-bits` also products of bfloat16, float16 and int8, which take PyTorch and seconds more.
A process of its own, for what it takes must not count as a worker's memory (`roofs` starts it).
Each thread multiplies for itself, in a library held to one thread: what so many cores can reach,
however well a framework shares its work out. Each figure is the best of a few tries.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter_ns
from typing import Any

from schemas.run import Ceiling
from services.agent.ceilings import Roof
from services.agent.host_arithmetic import INSTRUCTIONS, SIZES, products, why_not
from services.agent.noise import noise_between, reading
from services.agent.quotas import usable_cores

SIZE = 512
"""Rows and columns of a product's factors: 2 * SIZE^3 FLOP."""
PRODUCTS = 2
"""Products of a thread in a try."""
COPIED_BYTES = 128 << 20
"""Copied from one array to another by all threads together; each byte is read and written."""
TRIES = 6
FEW_BITS = "few-bits"
NOT_ASKED = "no manifest or option of a model that ran here names it"
_ONE_THREAD = (
    *("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS"),
    "VECLIB_MAXIMUM_THREADS",
)
Act = Callable[[], object]


def measured(cores: int, *, few_bits: bool = False) -> Roof:
    """Measure FLOP/s and bytes/s on up to `cores` threads. Raises MemoryError."""
    counts, before = list(thread_counts(cores)), reading()
    peaks = {
        name: {threads: _product(name, threads) for threads in counts}
        for name in ("float32", "float64")
    }
    lacking = dict.fromkeys(INSTRUCTIONS, NOT_ASKED)
    if few_bits:
        more, lacking = _of_few_bits(counts)
        peaks |= more
    bandwidths = _copies(counts)
    noise = noise_between(before, reading())
    return Roof(
        "cpu",
        peaks=peaks,
        bandwidths=bandwidths,
        others=noise.get("others_cpu_s", 0.0) / (noise["elapsed_s"] * noise["cores"]),
        lacking=lacking,
    )


def _of_few_bits(counts: list[int]) -> tuple[dict[str, dict[int, Ceiling]], dict[str, str]]:
    """Return peaks by precision and threads, and of those without one why."""
    peaks, lacking = dict[str, dict[int, Ceiling]](), dict[str, str]()
    for name in INSTRUCTIONS:
        if reason := why_not(name):
            lacking[name] = reason
            continue
        try:
            peaks[name] = {threads: _few_bits(name, threads) for threads in counts}
        except (ImportError, OSError, RuntimeError) as error:
            lacking[name] = f"PyTorch could not multiply them: {str(error).splitlines()[0]}"
    return peaks, lacking


def thread_counts(cores: int) -> Iterator[int]:
    """Yield 1, 2, 4 … and `cores`."""
    threads = 1
    while threads < cores:
        yield threads
        threads *= 2
    yield cores


def _product(precision: str, threads: int) -> Ceiling:
    import numpy as np

    factor = np.ones((SIZE, SIZE), precision)
    products = [np.empty_like(factor) for _ in range(threads)]

    def act_of(product: Any) -> Act:
        def act() -> None:
            for _ in range(PRODUCTS):
                np.matmul(factor, factor, out=product)

        return act

    taken_ns = together_ns([act_of(product) for product in products])
    method = f"{precision} products of {SIZE} x {SIZE} on {threads} threads, best of {TRIES}"
    flops = 2.0 * SIZE**3 * PRODUCTS * threads
    return Ceiling(measured=flops / taken_ns * 1e9, method=method)


def _few_bits(precision: str, threads: int) -> Ceiling:
    """Return what so many threads make of a precision below 32 bits; of int8, operations.

    Raises what PyTorch raises where it has no such product.
    """
    rates = {}
    for size in SIZES:
        acts = products(precision, size, threads)
        acts[0]()  # what it raises in another thread nobody would hear
        rates[size] = 2.0 * size**3 * threads / together_ns(acts) * 1e9
    size = max(rates, key=lambda each: rates[each])
    how = f"on {threads} threads by PyTorch, best of {TRIES}"
    return Ceiling(measured=rates[size], method=f"{precision} products of {size} x {size} {how}")


def _copies(counts: list[int]) -> dict[int, Ceiling]:
    import numpy as np

    source = np.ones(COPIED_BYTES // 8, np.float64)
    target = np.zeros_like(source)
    target.fill(0.0)
    found = {}
    for threads in counts:
        parts = zip(np.array_split(target, threads), np.array_split(source, threads), strict=True)
        taken_ns = together_ns([partial(np.copyto, *pair) for pair in parts])
        method = f"copy of {COPIED_BYTES} bytes on {threads} threads, best of {TRIES}"
        found[threads] = Ceiling(measured=2.0 * COPIED_BYTES / taken_ns * 1e9, method=method)
    return found


def together_ns(acts: list[Act]) -> int:
    """Return the least time of a few tries, from first begin to last end; one try to warm up.

    Each act has a thread of its own; they begin each try together.
    """
    barrier = threading.Barrier(len(acts))
    stamps: list[list[tuple[int, int]]] = [[] for _ in acts]

    def go(act: Act, mine: list[tuple[int, int]]) -> None:
        for _ in range(TRIES + 1):
            barrier.wait()
            began = perf_counter_ns()
            act()
            mine.append((began, perf_counter_ns()))

    threads = [threading.Thread(target=go, args=pair) for pair in zip(acts, stamps, strict=True)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    tries = list(zip(*stamps, strict=True))[1:]
    spans: list[int] = [
        max(end for _, end in each) - min(began for began, _ in each) for each in tries
    ]
    return max(min(spans), 1)


def main() -> None:
    """Measure, and write what was found as JSON."""
    # Before NumPy is imported: it reads these once.
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        found = measured(usable_cores(), few_bits=FEW_BITS in sys.argv[1:])
    except MemoryError as error:
        sys.exit(f"no memory: {error}")
    sys.stdout.write(json.dumps(found.words()))


if __name__ == "__main__":
    main()
