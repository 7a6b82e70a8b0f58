"""A foreign clock by two pairs: ends fit exactly, order is kept, a drift is spread."""

from hypothesis import given
from hypothesis import strategies as st

from services.agent.collectors.cupti.clock import ClockMap, Pair
from services.agent.collectors.cupti.pairing import paired

DAY_NS = 86_400 * 10**9


@given(
    offset=st.integers(-DAY_NS, DAY_NS),
    length=st.integers(1, DAY_NS),
    drift=st.integers(-1000, 1000),
    at=st.floats(0, 1),
)
def test_stamps_between_the_pairs_stay_between_them(
    offset: int, length: int, drift: int, at: float
) -> None:
    foreign_length = max(length + drift, 1)
    clock = ClockMap(Pair(0, offset), Pair(length, offset + foreign_length))
    assert clock.monotonic(offset) == 0
    assert clock.monotonic(offset + foreign_length) == length
    middle = clock.monotonic(offset + int(at * foreign_length))
    assert 0 <= middle <= length


def test_a_clock_of_no_length_is_shifted() -> None:
    clock = ClockMap(Pair(100, 1000), Pair(100, 1000))
    assert clock.monotonic(1007) == 107
    assert clock.drift_ns == 0


def test_a_pair_takes_the_closest_try() -> None:
    found = paired(lambda: 42)
    assert found.foreign_ns == 42
    assert 0 <= found.error_ns < 1 << 62
