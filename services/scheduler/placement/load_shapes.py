"""What planning needs to know of loads, without keeping them: a load may be hundreds of megabytes.

Only a scenario's whole load tells its shape, so it is made once, and its shape is kept: deciding
on an evaluation again costs nothing. Mutable, without I/O.
"""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mlscope.load import scenario_named

_MAX_SHAPES = 4096


@dataclass(frozen=True, slots=True)
class LoadShape:
    """What planning needs to know of a load."""

    queries: int
    is_open_loop: bool
    is_for_throughput: bool
    pacing: Literal["local", "remote"]
    #: due time of the last query of an open loop, from the start of the load
    last_due_s: float

    @property
    def offered_hz(self) -> float:
        """The queries per second of an open loop; infinite if all are due together, 0 if closed."""
        if not self.is_open_loop:
            return 0.0
        return (self.queries - 1) / self.last_due_s if self.last_due_s > 0 else math.inf


class LoadShapes:
    """The newest shapes by what they follow from. For one thread at a time."""

    def __init__(self) -> None:
        """Begin without any shape."""
        #: loads that were made
        self.made = 0
        self._shapes: OrderedDict[tuple[str, str, int, int], LoadShape] = OrderedDict()

    def of(
        self, scenario: str, parameters: Mapping[str, Any], size: int, samples: int
    ) -> LoadShape:
        """Return the shape of a scenario's load. Raises LoadError.

        `parameters` are the scenario's, `size` is the batch size, and `samples` the number of
        samples in the dataset. Making a large load takes seconds: too long for an event loop.
        """
        text = ascii(sorted(parameters.items(), key=lambda parameter: parameter[0]))
        key = (scenario, hashlib.sha256(text.encode()).hexdigest(), size, samples)
        if key not in self._shapes:
            self.made += 1
            load = scenario_named(scenario)(parameters, size, samples)
            last_due_ns = 0 if load.due_ns is None or not load.queries else int(load.due_ns[-1])
            self._shapes[key] = LoadShape(
                queries=load.queries,
                is_open_loop=load.open_loop,
                is_for_throughput=not load.open_loop and load.concurrency > 1,
                pacing=load.pacing,
                last_due_s=last_due_ns / 1e9,
            )
        self._shapes.move_to_end(key)
        if len(self._shapes) > _MAX_SHAPES:
            self._shapes.popitem(last=False)
        return self._shapes[key]
