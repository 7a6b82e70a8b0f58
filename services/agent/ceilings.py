"""The host's roof, measured: the most it computes (a large product) and moves (a large copy).

Once a start of an agent, kept in its folder, and only when a run asks for layers. Each figure is
the best of a few tries: what can be reached, not what is usual. All cores that the agent may use.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from schemas.run import Ceiling

FILE = "ceilings.json"
SIZE = 1024
"""Rows and columns of the product's float32 factors: 2 * SIZE^3 FLOP."""
COPIED_BYTES = 64 << 20
"""Copied from one array to another, beyond most caches; each byte is read and written."""
TRIES = 5

Roof = dict[str, Ceiling]


def host_roof(folder: Path | None) -> Roof:
    """Return `peak_flops` and `memory_bandwidth` of this host: as kept in `folder`, else measured.

    Empty where there is no memory for it. What cannot be kept is measured again.
    """
    kept = None if folder is None else folder / FILE
    if kept is not None:
        # A torn file is none.
        with suppress(OSError, ValueError, TypeError, AttributeError):
            told = json.loads(kept.read_text())
            return {name: Ceiling(**each) for name, each in told.items()}
    try:
        found = measured()
    except MemoryError:
        return {}
    if kept is not None:
        with suppress(OSError):
            kept.write_text(json.dumps({name: each.model_dump() for name, each in found.items()}))
    return found


def measured() -> Roof:
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
