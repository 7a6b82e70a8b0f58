"""How queries arrive: each scenario a pure function of its parameters, batch size and dataset size.

Found by entry point in the group `mlscope.scenarios`, so a user's own scenario is one function in
a package of theirs: `(parameters, batch_size, samples) -> Load`.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlscope.load.arrivals import fixed_rate_due_ns, poisson_due_ns
from mlscope.load.errors import InvalidParameter, UnknownScenario
from mlscope.load.load import Load
from mlscope.load.parameters import Parameters

GROUP = "mlscope.scenarios"
SLOWEST_HZ, FASTEST_HZ = 1e-3, 1e7
COLD, OPENINGS, WARM = "cold", 3, 5
"""The scenario of cold starts: how often it opens the model, and queries after each first one."""

Scenario = Callable[[Mapping[str, Any], int, int], Load]


def online(parameters: Mapping[str, Any], batch_size: int, samples: int) -> Load:
    """Issue one query at a time: the next one when the last one is answered (single stream).

    A closed loop, as of one user who waits. `queries` (50); `sample_seed` for random samples.
    Final performance result is: the trimmed mean of the latencies, the 90th percentile beside it.
    """
    given = Parameters("online", parameters).only("queries", "sample_seed")
    carried = _samples(given, 50, batch_size, samples)
    return Load("online", None, carried, concurrency=1, pacing="local")


def poisson(parameters: Mapping[str, Any], batch_size: int, samples: int) -> Load:
    """Issue queries at random, independent of each other and of answers (MLPerf's server).

    An open loop at `rate_hz` (20) queries a second on average; `queries` (100), `seed` (1) of the
    arrivals, `sample_seed` for random samples. Each latency runs from when the query was due.
    Final performance result is: the 99th percentile of latency at the offered rate.
    """
    given = Parameters("poisson", parameters).only("rate_hz", "queries", "seed", "sample_seed")
    carried = _samples(given, 100, batch_size, samples)
    rate_hz = given.number("rate_hz", 20.0, SLOWEST_HZ, FASTEST_HZ)
    seed = given.whole("seed", 1, 0, 2**64 - 1)
    return _open_loop("poisson", poisson_due_ns(rate_hz, len(carried), seed), carried)


def fixed_rate(parameters: Mapping[str, Any], batch_size: int, samples: int) -> Load:
    """Issue queries at equal distances, as from a camera.

    An open loop at `rate_hz` (20) queries a second; `queries` (100), `sample_seed` for random
    samples. Each latency runs from when the query was due.
    Final performance result is: the 99th percentile of latency at the offered rate.
    """
    given = Parameters("fixed_rate", parameters).only("rate_hz", "queries", "sample_seed")
    carried = _samples(given, 100, batch_size, samples)
    rate_hz = given.number("rate_hz", 20.0, SLOWEST_HZ, FASTEST_HZ)
    return _open_loop("fixed_rate", fixed_rate_due_ns(rate_hz, len(carried)), carried)


def batched(parameters: Mapping[str, Any], batch_size: int, samples: int) -> Load:
    """Issue batches as fast as they are answered, as in offline processing.

    A closed loop with `concurrency` (2) batches in flight, so that reading and pre-processing one
    overlaps with predicting another; `queries` (20), `sample_seed` for random samples.
    Final performance result is: the throughput in samples a second, and over batch sizes the
    optimal one, the first whose doubling raises throughput by no more than 5 %.
    """
    given = Parameters("batched", parameters).only("queries", "concurrency", "sample_seed")
    carried = _samples(given, 20, batch_size, samples)
    concurrency = given.whole("concurrency", 2, 2, 1024)
    return Load("batched", None, carried, concurrency=concurrency, pacing="local")


def cold(parameters: Mapping[str, Any], batch_size: int, samples: int) -> Load:
    """Open the model anew for each query: how long the first answer takes (cold start).

    Each of `queries` (3) openings has a process of its own: load, then a first run, then `warm`
    (5) queries as `online` has them, to compare with.
    Final performance result is: the time to load and that of the first run, against a warm one.
    """
    given = Parameters("cold", parameters).only("queries", "warm", "sample_seed")
    given.whole("warm", WARM, 1, 10_000)
    given.whole("queries", OPENINGS, 1, 100)
    return Load("cold", None, _samples(given, OPENINGS, batch_size, samples), 1, pacing="local")


BUILT_IN: Mapping[str, Scenario] = MappingProxyType(
    {
        "online": online,
        "poisson": poisson,
        "fixed_rate": fixed_rate,
        "batched": batched,
        COLD: cold,
    }
)


def scenario_names() -> tuple[str, ...]:
    """List every scenario there is: the built-in ones and those of installed packages."""
    return tuple(sorted({*BUILT_IN, *(found.name for found in entry_points(group=GROUP))}))


def scenario_named(name: str) -> Scenario:
    """Find the scenario called `name`; raises UnknownScenario.

    A built-in one is itself, installed or not; another is loaded from its entry point.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    for found in entry_points(group=GROUP, name=name):
        scenario: Scenario = found.load()
        return scenario
    raise UnknownScenario(name, scenario_names())


def _open_loop(name: str, due_ns: NDArray[np.int64], carried: NDArray[np.int32]) -> Load:
    due_ns.setflags(write=False)
    return Load(name, due_ns, carried, concurrency=0, pacing="remote")


def _samples(given: Parameters, queries: int, batch_size: int, samples: int) -> NDArray[np.int32]:
    """Take samples in turn, or with `sample_seed` in one random order after another.

    `queries` is the scenario's default. Each sample is issued as often as any other, give or
    take one. Shape [queries, batch_size].
    """
    for field, found in (("batch_size", batch_size), ("samples", samples)):
        if found < 1:
            raise InvalidParameter(given.scenario, field, found, "1 or more")
    total = given.queries(queries, batch_size) * batch_size
    seed = given.seed("sample_seed")
    order = np.arange(total) % samples if seed is None else _shuffled(total, samples, seed)
    carried = order.astype(np.int32).reshape(-1, batch_size)
    carried.setflags(write=False)
    return carried


def _shuffled(total: int, samples: int, seed: int) -> NDArray[np.int64]:
    """Take the first `total` of one random order of `samples` after another."""
    shuffled = np.random.RandomState([seed % 2**32, seed >> 32])
    keys = shuffled.random_sample((-(-total // samples), samples))
    return keys.argsort(axis=1, kind="stable").reshape(-1)[:total]
