"""What planning needs to know of loads, without keeping them: a load may be hundreds of megabytes.

Of a built-in scenario at most a short load is made: making 10 million queries takes seconds, and
whoever may look could keep the scheduler busy with it. Only the whole load of another scenario
tells its shape. Each is made once, and its shape is kept: deciding on an evaluation again costs
nothing. Mutable, without I/O.
"""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from mlscope.load import scenario_named
from mlscope.load.errors import TooLong
from mlscope.load.load import Load
from mlscope.load.parameters import Parameters, shortened
from mlscope.load.scenarios import BUILT_IN, COLD, FASTEST_HZ, RATE_HZ, SLOWEST_HZ

SHORT_QUERIES = 10_000
"""The queries of the longest load of a built-in scenario that is made for its shape, in 10 ms."""

_MAX_SHAPES = 4096
_LARGEST_S = 2**63 / 1e9


@dataclass(frozen=True, slots=True)
class LoadShape:
    """What planning needs to know of a load."""

    queries: int
    is_open_loop: bool
    is_for_throughput: bool
    pacing: Literal["local", "remote"]
    #: due time of the last query of an open loop, from the start of the load; of a `poisson` load
    #: with more than `SHORT_QUERIES` the expected one, of a standard deviation of 1% or less
    last_due_s: float

    @property
    def offered_hz(self) -> float:
        """The queries per second of an open loop; infinite if all are due together, 0 if closed."""
        if not self.is_open_loop:
            return 0.0
        return (self.queries - 1) / self.last_due_s if self.last_due_s > 0 else math.inf


ShapeKey = tuple[str, str, int, int]
"""What a shape follows from: scenario, digest of its parameters, batch size, number of samples."""


class LoadShapes:
    """The newest shapes by what they follow from. For one thread at a time."""

    def __init__(self) -> None:
        """Begin without any shape."""
        #: loads that were made
        self.made = 0
        self._shapes: OrderedDict[ShapeKey, LoadShape] = OrderedDict()

    def of(
        self, scenario: str, parameters: Mapping[str, Any], size: int, samples: int
    ) -> LoadShape:
        """Return the shape of a scenario's load. Raises LoadError.

        `parameters` are the scenario's, `size` is the batch size, and `samples` the number of
        samples in the dataset. A scenario of another package may make a large load for seconds: too
        long for an event loop.
        """
        text = ascii(sorted(parameters.items(), key=lambda parameter: parameter[0]))
        key = (scenario, hashlib.sha256(text.encode()).hexdigest(), size, samples)
        return self.known(key) or self.make(key, parameters)

    def known(self, key: ShapeKey) -> LoadShape | None:
        """Return the shape of a load that was made; None if it was not."""
        shape = self._shapes.get(key)
        if shape is not None:
            self._shapes.move_to_end(key)
        return shape

    def make(self, key: ShapeKey, parameters: Mapping[str, Any]) -> LoadShape:
        """Make the load of `key`, whose scenario has these `parameters`, and return its shape.

        Raises LoadError.
        """
        scenario, _, size, samples = key
        if scenario in BUILT_IN and scenario != COLD:
            shape = _shape_of_built_in(scenario, parameters, size)
        else:
            shape = _shape_of(scenario_named(scenario)(parameters, size, samples))
        self.keep(key, shape)
        return shape

    def keep(self, key: ShapeKey, shape: LoadShape) -> None:
        """Keep the newest shape, in place of the one that was not asked for longest."""
        self.made += 1
        self._shapes[key] = shape
        if len(self._shapes) > _MAX_SHAPES:
            self._shapes.popitem(last=False)


def _shape_of(load: Load) -> LoadShape:
    last_due_ns = 0 if load.due_ns is None or not load.queries else int(load.due_ns[-1])
    return LoadShape(
        queries=load.queries,
        is_open_loop=load.open_loop,
        is_for_throughput=not load.open_loop and load.concurrency > 1,
        pacing=load.pacing,
        last_due_s=last_due_ns / 1e9,
    )


def _shape_of_built_in(scenario: str, parameters: Mapping[str, Any], size: int) -> LoadShape:
    """Return the shape of a load in which queries are due at `rate_hz`, or in a closed loop.

    Neither the batch `size` nor the samples change it, but `size` limits the number of queries.
    """
    short = shortened(parameters, SHORT_QUERIES)
    # A size below 1 is an error of the scenario's, which names it.
    shape = _shape_of(BUILT_IN[scenario](short, min(size, 1), 1))
    read = Parameters(scenario, parameters)
    queries = read.queries(shape.queries, size)
    if short is parameters or not shape.is_open_loop:
        return replace(shape, queries=queries)
    last_due_s = (queries - 1) / read.number("rate_hz", RATE_HZ, SLOWEST_HZ, FASTEST_HZ)
    if last_due_s >= _LARGEST_S:
        raise TooLong(f"the last query would be due after {last_due_s:.3g} s")
    return replace(shape, queries=queries, last_due_s=last_due_s)
