"""Scenarios: how queries arrive. Each is a pure function of parameters, batch and dataset size.

A name is looked up in `BUILT_IN` first, then among the entry points of the group
`mlscope.scenarios`. A user's own scenario is one function `(parameters, batch_size, samples) ->
Load` in the user's package; it raises InvalidParameter for parameters it can't use.

Every built-in scenario also takes the parameter `samples`: `ahead` prepares all batches before the
clock starts, so that the model alone is timed; `streamed` prepares them while it runs. The default
is ahead where the batches fit the memory that an agent allows for them, else streamed.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlscope.load.arrivals import fixed_rate_due_ns, poisson_due_ns
from mlscope.load.errors import InvalidParameter, UnknownScenario
from mlscope.load.load import Load, SamplesMode
from mlscope.load.parameters import Parameters

GROUP = "mlscope.scenarios"
SLOWEST_HZ, FASTEST_HZ = 1e-3, 1e7
RATE_HZ = 20.0
"""Of an open loop by default. A model that takes up to 50 ms a query keeps up with it."""
COLD, OPENINGS, WARM = "cold", 3, 5
"""The scenario of cold starts: its name, the openings, and the warm queries after each of them."""

_OF_EVERY_SCENARIO = ("queries", "sample_seed", "samples")
"""Parameters of every built-in scenario."""

Scenario = Callable[[Mapping[str, Any], int, int], Load]


def online(parameters: Mapping[str, Any], batch_size: int, samples: int) -> Load:
    """Issue one query at a time: the next when the previous one is answered (single stream).

    A closed loop, like one user who waits. `parameters`: `queries` (50) of `batch_size` samples;
    `sample_seed` for a random order of the dataset's `samples`.
    Final performance result: the trimmed mean and the 90th percentile of the latencies.
    """
    read = Parameters("online", parameters).only(*_OF_EVERY_SCENARIO)
    mode = read.samples()
    return Load("online", None, _samples(read, 50, batch_size, samples), 1, "local", mode)


def poisson(parameters: Mapping[str, Any], batch_size: int, samples: int) -> Load:
    """Issue queries at random times, independent of each other and of answers (MLPerf's server).

    An open loop. `parameters`: `rate_hz` (20) queries a second on average, `queries` (100) of
    `batch_size` samples, `seed` (1) of the arrivals, `sample_seed` for a random order of the
    dataset's `samples`. A latency is measured from the time at which the query was due.
    Final performance result: the 99th percentile of latency at the offered rate.
    """
    read = Parameters("poisson", parameters).only("rate_hz", "seed", *_OF_EVERY_SCENARIO)
    rate_hz = read.number("rate_hz", RATE_HZ, SLOWEST_HZ, FASTEST_HZ)
    seed = read.integer("seed", 1, 0, 2**64 - 1)
    mode = read.samples()
    sample_indices = _samples(read, 100, batch_size, samples)
    due_ns = poisson_due_ns(rate_hz, len(sample_indices), seed)
    return _open_loop(read.scenario, due_ns, sample_indices, mode)


def fixed_rate(parameters: Mapping[str, Any], batch_size: int, samples: int) -> Load:
    """Issue queries at equal intervals, like a camera.

    An open loop. `parameters`: `rate_hz` (20) queries a second, `queries` (100) of `batch_size`
    samples, `sample_seed` for a random order of the dataset's `samples`. A latency is measured
    from the time at which the query was due.
    Final performance result: the 99th percentile of latency at the offered rate.
    """
    read = Parameters("fixed_rate", parameters).only("rate_hz", *_OF_EVERY_SCENARIO)
    rate_hz = read.number("rate_hz", RATE_HZ, SLOWEST_HZ, FASTEST_HZ)
    mode = read.samples()
    sample_indices = _samples(read, 100, batch_size, samples)
    due_ns = fixed_rate_due_ns(rate_hz, len(sample_indices))
    return _open_loop(read.scenario, due_ns, sample_indices, mode)


def batched(parameters: Mapping[str, Any], batch_size: int, samples: int) -> Load:
    """Issue batches as fast as they are answered, as in offline processing.

    A closed loop. `parameters`: `concurrency` (2) batches in flight, so that one may be
    prepared while another is predicted; `queries` (20) of `batch_size` samples,
    `sample_seed` for a random order of the dataset's `samples`.
    Final performance result: the throughput in samples a second, and of several batch sizes the
    optimal one, the first that gains no more than 5% throughput when doubled.
    """
    read = Parameters("batched", parameters).only("concurrency", *_OF_EVERY_SCENARIO)
    concurrency = read.integer("concurrency", 2, 2, 1024)
    mode = read.samples()
    sample_indices = _samples(read, 20, batch_size, samples)
    return Load("batched", None, sample_indices, concurrency, "local", mode)


def cold(parameters: Mapping[str, Any], batch_size: int, samples: int) -> Load:
    """Open the model again for each query, to measure the time to the first answer (cold start).

    `parameters`: each of `queries` (3) openings has its own process, which loads the model, runs
    it a first time, then answers `warm` (5) queries like `online`, for comparison. Queries have
    `batch_size` samples; `sample_seed` is for a random order of the dataset's `samples`.
    Final performance result: the times of loading and of the first run, against a warm run.
    """
    read = Parameters("cold", parameters).only("warm", *_OF_EVERY_SCENARIO)
    read.integer("warm", WARM, 1, 10_000)
    read.integer("queries", OPENINGS, 1, 100)
    sample_indices = _samples(read, OPENINGS, batch_size, samples)
    return Load("cold", None, sample_indices, 1, "local", read.samples())


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
    """Return the names of all scenarios: the built-in ones and those of installed packages."""
    return tuple(
        sorted({*BUILT_IN, *(entry_point.name for entry_point in entry_points(group=GROUP))})
    )


def scenario_named(name: str) -> Scenario:
    """Return the scenario with this name. Raises UnknownScenario.

    A built-in scenario can't be replaced; others are loaded from their entry points.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    for entry_point in entry_points(group=GROUP, name=name):
        scenario: Scenario = entry_point.load()
        return scenario
    raise UnknownScenario(name, scenario_names())


def _open_loop(
    scenario: str, due_ns: NDArray[np.int64], sample_indices: NDArray[np.int32], mode: SamplesMode
) -> Load:
    due_ns.setflags(write=False)
    return Load(scenario, due_ns, sample_indices, 0, "remote", mode)


def _samples(read: Parameters, queries: int, batch_size: int, samples: int) -> NDArray[np.int32]:
    """Return the samples of each query, int32 [queries, batch_size].

    They are in turn, or with `sample_seed` in one random order after another: each sample occurs
    as often as any other, give or take one. `queries` is the scenario's default. A scenario reads
    its other parameters before: millions of queries are not made to be refused for one of those.
    """
    for field, number in (("batch_size", batch_size), ("samples", samples)):
        if number < 1:
            raise InvalidParameter(read.scenario, field, number, "1 or more")
    total = read.queries(queries, batch_size) * batch_size
    seed = read.seed("sample_seed")
    if seed is None:
        order = np.arange(total) % samples
    else:
        random = np.random.RandomState([seed % 2**32, seed >> 32])
        keys = random.random_sample((-(-total // samples), samples))
        order = keys.argsort(axis=1, kind="stable").reshape(-1)[:total]
    sample_indices = order.astype(np.int32).reshape(-1, batch_size)
    sample_indices.setflags(write=False)
    return sample_indices
