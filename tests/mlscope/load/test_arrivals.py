"""Arrivals: LoadGen's schedule to the nanosecond, monotone, and at the rate asked for."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlscope.load.arrivals import fixed_rate_due_ns, poisson_due_ns
from mlscope.load.errors import TooLong
from tests.thoroughness import examples

# Traced from the real wheel's Server scenario: `ts` of each sample less that of the first.
GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "loadgen_schedules.json").read_text()
)["schedules"]

rates = st.floats(0.01, 1e6)
counts = st.integers(1, 400)
seeds = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda each: f"{each['rate_hz']}-{each['seed']}")
def test_poisson_is_loadgens_schedule_to_the_nanosecond(golden: dict[str, Any]) -> None:
    due_ns = poisson_due_ns(golden["rate_hz"], golden["queries"], golden["seed"])
    assert due_ns[:8].tolist() == golden["first_ns"]
    assert due_ns[-1] == golden["last_ns"]
    assert hashlib.sha256(due_ns.astype("<i8").tobytes()).hexdigest() == golden["sha256"]


@given(rates, counts, seeds)
def test_poisson_starts_at_zero_and_never_falls(rate_hz: float, queries: int, seed: int) -> None:
    due_ns = poisson_due_ns(rate_hz, queries, seed)
    assert due_ns.shape == (queries,)
    assert due_ns.dtype == np.int64
    assert due_ns[0] == 0
    assert (np.diff(due_ns) >= 0).all()


@given(rates, counts, seeds)
def test_poisson_follows_from_its_seed(rate_hz: float, queries: int, seed: int) -> None:
    due_ns = poisson_due_ns(rate_hz, queries, seed)
    assert np.array_equal(due_ns, poisson_due_ns(rate_hz, queries, seed))
    longer_ns = poisson_due_ns(rate_hz, queries + 7, seed)
    assert np.array_equal(due_ns, longer_ns[:queries])


@settings(max_examples=examples(20))
@given(st.sampled_from([0.5, 20.0, 1000.0, 33333.0]), st.integers(0, 50))
def test_poisson_keeps_its_rate_within_chance(rate_hz: float, seed: int) -> None:
    queries = 20_001
    achieved_hz = (queries - 1) / (poisson_due_ns(rate_hz, queries, seed)[-1] * 1e-9)
    # The sum of n exponential distances has a relative deviation of 1/sqrt(n); 5 of them never
    # happen in 200 schedules.
    assert abs(achieved_hz / rate_hz - 1) < 5 / math.sqrt(queries)


def test_poisson_distances_are_exponential() -> None:
    gaps = np.sort(np.diff(poisson_due_ns(1000.0, 50_001, 3)) * 1e-6)
    empirical = np.arange(1, gaps.size + 1) / gaps.size
    distance = np.abs(empirical - (1 - np.exp(-gaps))).max()
    assert distance < 1.63 / math.sqrt(gaps.size)  # Kolmogorov-Smirnov at 1%


def test_seeds_differ_in_their_low_word_only() -> None:
    assert not np.array_equal(poisson_due_ns(10, 50, 1), poisson_due_ns(10, 50, 2))
    assert np.array_equal(poisson_due_ns(10, 50, 1), poisson_due_ns(10, 50, 2**32 + 1))


@given(rates, counts)
def test_fixed_rate_does_not_drift(rate_hz: float, queries: int) -> None:
    due_ns = fixed_rate_due_ns(rate_hz, queries)
    assert due_ns[0] == 0
    exact_ns = np.arange(queries) * (1e9 / rate_hz)
    assert np.abs(due_ns - exact_ns).max() <= 1
    assert (np.diff(due_ns) >= 0).all()


def test_a_schedule_beyond_the_clock_is_refused() -> None:
    with pytest.raises(TooLong):
        poisson_due_ns(1e-9, 1000, 1)
    with pytest.raises(TooLong):
        fixed_rate_due_ns(1e-9, 1000)
