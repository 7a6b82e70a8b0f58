"""A load that piles up is told from one that is kept up with."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.worker.queries.overload import ServiceBacklog

MS = 1_000_000


def served(due_ns: list[int], service_ns: list[int]) -> ServiceBacklog:
    """Return what one server makes of queries that are due then."""
    made, free_ns = ServiceBacklog(), 0
    for due, service in zip(due_ns, service_ns, strict=True):
        free_ns = max(free_ns, due) + service
        made.add(due, free_ns)
    return made


def poisson(rate_hz: float, queries: int, seed: int) -> list[int]:
    gaps = np.random.default_rng(seed).exponential(1e9 / rate_hz, queries)
    return [int(due) for due in np.cumsum(gaps)]


def test_three_times_too_many_is_an_overload_and_said_in_numbers() -> None:
    made = served([n * MS for n in range(1001)], [3 * MS] * 1001)
    assert made.is_overload(3 * MS)
    expected = "overload: 1001 queries arrived within 1.00 s and were served within 3.00 s"
    assert made.note() == expected


@given(st.integers(0, 2**32 - 1))
def test_half_of_what_can_be_served_is_none(seed: int) -> None:
    made = served(poisson(500, 2000, seed), [MS] * 2000)
    assert not made.is_overload(MS)


@given(st.integers(0, 2**32 - 1), st.floats(1.5, 50))
def test_half_too_many_is_always_one(seed: int, factor: float) -> None:
    made = served(poisson(1000 * factor, 2000, seed), [MS] * 2000)
    assert made.is_overload(MS)


@pytest.mark.parametrize("queries", [0, 1, 2, 8])
def test_a_few_queries_at_once_are_a_burst_and_no_overload(queries: int) -> None:
    assert not served([0] * queries, [MS] * queries).is_overload(MS)


def test_one_long_answer_at_the_end_is_none() -> None:
    made = served([n * 10 * MS for n in range(100)], [MS] * 99 + [50 * MS])
    assert not made.is_overload(MS)
