"""A GPU's roof, measured: large products in each precision, and a large copy.

    python -m services.agent.gpu_roof [NUMBER]

NUMBER counts as CUDA does in this environment. With PyTorch, else JAX; where neither sees the GPU
the copy alone, by CUDA's driver. A process of its own, which `roofs` starts: no run may find the
GPU's memory or caches other than it left them. Factors are random numbers, for a GPU draws less
power and so runs faster on zeros. A few seconds, beside importing the library.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from schemas.run import Ceiling
from services.agent.ceilings import PRECISIONS, WHOLE, Roof
from services.agent.gpu_arithmetic import BYTES, LEAST_CAPABILITY, Act, CudaCopy, WithJax, WithTorch

LEAST_SIZE, MOST_SIZE = 1024, 8192
"""Rows and columns of a product's factors; doubled from the first until it takes long enough."""
LONG_S = 0.06
"""A product whose double, eight times its work, would take longer is not doubled."""
TRY_S = 0.02
"""A try repeats its product or copy for about as long."""
TRIES = 5
MOST_COPIED_BYTES = 2 << 30
LEAST_COPIED_BYTES = 64 << 20
"""Less than this may lie in a GPU's cache."""
_MOST_REASON = 160


class Arithmetic(Protocol):
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
        """What it can multiply in."""
        ...

    def free_bytes(self) -> int:
        """Return how much of the GPU's memory is free."""
        ...

    def product(self, precision: str, size: int) -> Act:
        """Return what multiplies two square matrices so many times, and says how long it took."""
        ...

    def copy(self, count: int) -> Act:
        """Return what copies `count` bytes so many times, and says how long it took."""
        ...


Open = Callable[[int], Arithmetic]
OPENERS: tuple[Open, ...] = (WithTorch, WithJax, CudaCopy)


@dataclass(slots=True)
class Found:
    """What has been measured so far, and why the rest was not."""

    peaks: dict[str, Mapping[int, Ceiling]] = field(default_factory=dict)
    bandwidths: dict[int, Ceiling] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)


def measured(number: int, openers: Sequence[Open] = OPENERS) -> Roof:
    """Measure GPU `number` with the first library that sees it; a note where none does."""
    refused = []
    for opener in openers:
        try:
            arithmetic = opener(number)
        # Libraries raise what they like: RuntimeError, ImportError, their own.
        except Exception as error:  # noqa: BLE001
            refused.append(f"{opener.__name__}: {_short(error)}")
            continue
        found = _with(arithmetic)
        return Roof("gpu", arithmetic.device, found.peaks, found.bandwidths, found.lacking)
    return Roof(note=f"no roof of the GPU was measured: {'; '.join(refused)}")


def _with(arithmetic: Arithmetic) -> Found:
    found = Found()
    for precision in PRECISIONS:
        reason = _unfit(arithmetic, precision)
        if not reason:
            try:
                found.peaks[precision] = {WHOLE: _peak(arithmetic, precision)}
            except Exception as error:  # noqa: BLE001  # out of memory, or no such kernel
                reason = _short(error)
        if reason:
            found.lacking[precision] = reason
    try:
        found.bandwidths[WHOLE] = _bandwidth(arithmetic)
    except Exception as error:  # noqa: BLE001
        found.lacking["copy"] = _short(error)
    return found


def _unfit(arithmetic: Arithmetic, precision: str) -> str:
    if precision not in arithmetic.precisions:
        return f"not measured with {arithmetic.library}"
    if arithmetic.capability < LEAST_CAPABILITY.get(precision, (0, 0)):
        return f"compute capability {'.'.join(map(str, arithmetic.capability))} has none"
    return ""


def _peak(arithmetic: Arithmetic, precision: str) -> Ceiling:
    """Return FLOP/s: 2 * size^3 a product."""
    size, most = LEAST_SIZE, arithmetic.free_bytes() // 2
    while True:
        multiply = arithmetic.product(precision, size)
        multiply(2)
        one_s = multiply(3) / 3
        doubled = _doublings(size, one_s, BYTES[precision], most)
        if not doubled:
            break
        size <<= doubled
    best_s = _best_s(multiply, one_s)
    method = f"{precision} products of {size} x {size}, {arithmetic.library}, best of {TRIES}"
    return Ceiling(measured=2.0 * size**3 / best_s, method=method)


def _doublings(size: int, one_s: float, number_bytes: int, most_bytes: int) -> int:
    """Return how often a product may be doubled: all at once, for JAX compiles each size anew."""
    times = 0
    while size < MOST_SIZE and 8 * one_s <= LONG_S and 12 * number_bytes * size**2 <= most_bytes:
        size, one_s, times = 2 * size, 8 * one_s, times + 1
    return times


def _bandwidth(arithmetic: Arithmetic) -> Ceiling:
    """Return bytes/s, each byte copied is read and written."""
    count = min(MOST_COPIED_BYTES, arithmetic.free_bytes() // 4) >> 20 << 20
    if count < LEAST_COPIED_BYTES:
        raise RuntimeError(f"{arithmetic.free_bytes()} bytes of its memory are free")
    copy = arithmetic.copy(count)
    copy(2)
    best_s = _best_s(copy, copy(3) / 3)
    method = f"copy of {count} bytes, {arithmetic.library}, best of {TRIES}"
    return Ceiling(measured=2.0 * count / best_s, method=method)


def _best_s(act: Act, one_s: float) -> float:
    """Return the least time of one act, in tries long enough to be timed."""
    times = max(1, min(100, round(TRY_S / max(one_s, 1e-6))))
    return max(min(act(times) / times for _ in range(TRIES)), 1e-9)


def _short(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:_MOST_REASON]


def main(arguments: Sequence[str]) -> None:
    """Measure the GPU of a number, 0 unless told, and write what was found as JSON."""
    found = measured(int(arguments[0]) if arguments else 0)
    sys.stdout.write(json.dumps(found.words()))


if __name__ == "__main__":
    main(sys.argv[1:])
