"""What planning needs of loads, without keeping them: a load may be hundreds of megabytes.

A scenario is asked for its whole load, since only that tells its shape; what it told is kept, so
that an evaluation decided upon again, or asked for again, costs nothing.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mlscope.load import Load, scenario_named

_MOST_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Shape:
    """What planning needs of a load."""

    queries: int
    is_open_loop: bool
    is_for_throughput: bool
    pacing: Literal["local", "remote"]
    last_due_s: float


class Shapes:
    """Shapes by what they follow from. Threads may share one; it makes one load at a time."""

    def __init__(self) -> None:
        """Know none yet."""
        self.made = 0
        self._known: OrderedDict[tuple[str, str, int, int], Shape] = OrderedDict()
        self._making = threading.Lock()

    def of(self, scenario: str, parameters: Mapping[str, Any], size: int, samples: int) -> Shape:
        """Return the shape of a scenario's load at a batch size. Raises LoadError.

        Making a load takes seconds at its largest: not for an event loop.
        """
        key = (scenario, _digest(parameters), size, samples)
        with self._making:
            if key not in self._known:
                self.made += 1
                self._known[key] = _shape(scenario_named(scenario)(parameters, size, samples))
            self._known.move_to_end(key)
            if len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
            return self._known[key]


def _digest(parameters: Mapping[str, Any]) -> str:
    told = ascii(sorted(parameters.items(), key=lambda each: each[0]))
    return hashlib.sha256(told.encode()).hexdigest()


def _shape(load: Load) -> Shape:
    last_ns = 0 if load.due_ns is None or not load.queries else int(load.due_ns[-1])
    return Shape(
        queries=load.queries,
        is_open_loop=load.open_loop,
        is_for_throughput=not load.open_loop and load.concurrency > 1,
        pacing=load.pacing,
        last_due_s=last_ns / 1e9,
    )
