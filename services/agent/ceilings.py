"""The host's roof, measured: the most it computes (a large product) and moves (a large copy).

    python -m services.agent.ceilings

A process of its own, for what it takes must not count as a worker's memory (`host_roof` starts
it). Each figure is the best of a few tries: what can be reached, not what is usual. All cores that
the agent may use.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, Self

import numpy as np

from schemas.run import Ceiling

SIZE = 1024
"""Rows and columns of the product's float32 factors: 2 * SIZE^3 FLOP."""
COPIED_BYTES = 64 << 20
"""Copied from one array to another, beyond most caches; each byte is read and written."""
TRIES = 5


@dataclass(frozen=True, slots=True)
class Roof:
    """`peak_flops` and `memory_bandwidth` of this host; a note where they could not be had."""

    ceilings: Mapping[str, Ceiling] = field(default_factory=dict)
    note: str = ""

    def words(self) -> dict[str, Any]:
        """Return it as a worker is told it, and as a file keeps it."""
        told = {name: each.model_dump() for name, each in self.ceilings.items()}
        return {"ceilings": told, "note": self.note}

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Self:
        """Return what `words` says. Raises KeyError, ValueError, TypeError, AttributeError."""
        told = {name: Ceiling(**each) for name, each in words["ceilings"].items()}
        return cls(told, str(words["note"]))


NO_ROOF = Roof()
"""Of who asks for none."""


def measured() -> dict[str, Ceiling]:
    """Measure FLOP/s and bytes/s. Raises MemoryError."""
    factor = np.ones((SIZE, SIZE), np.float32)
    product = np.empty_like(factor)
    source = np.ones(COPIED_BYTES // 8, np.float64)
    target = np.empty_like(source)
    product_ns = _best_ns(lambda: np.matmul(factor, factor, out=product))
    copy_ns = _best_ns(lambda: np.copyto(target, source))
    return {
        "peak_flops": Ceiling(
            measured=2.0 * SIZE**3 / product_ns * 1e9,
            method=f"float32 product of {SIZE} x {SIZE}, best of {TRIES}",
        ),
        "memory_bandwidth": Ceiling(
            measured=2.0 * COPIED_BYTES / copy_ns * 1e9,
            method=f"copy of {COPIED_BYTES} bytes, best of {TRIES}",
        ),
    }


def _best_ns(act: Callable[[], Any]) -> int:
    """Return the least time of a few tries, the first one to warm up."""
    times = []
    for _ in range(TRIES + 1):
        began = perf_counter_ns()
        act()
        times.append(perf_counter_ns() - began)
    return max(min(times[1:]), 1)


def main() -> None:
    """Measure, and write what was found as JSON."""
    try:
        found = Roof(measured())
    except MemoryError as error:
        sys.exit(f"no memory: {error}")
    sys.stdout.write(json.dumps(found.words()))


if __name__ == "__main__":
    main()
