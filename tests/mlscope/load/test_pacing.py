"""The pacing loop on a clock of the test's own: never early, never moved, stoppable."""

import gc
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.load.issuing import MAX_MARGIN_NS, MIN_MARGIN_NS
from mlscope.load.pacing import Clock, calibrate_margin_ns, lateness_ns, pace

ORIGIN_NS = 10**12


class SteppingClock:
    """Moves `tick_ns` at each look, and oversleeps by `oversleeps_ns` in turn."""

    def __init__(self, tick_ns: int = 7, oversleeps_ns: tuple[int, ...] = (0,)) -> None:
        self.at_ns = ORIGIN_NS
        self.sleeps = 0
        self._tick_ns, self._oversleeps_ns = tick_ns, oversleeps_ns

    def now_ns(self) -> int:
        """One tick later than at the last look."""
        self.at_ns += self._tick_ns
        return self.at_ns

    def sleep_s(self, seconds: float) -> None:
        """Sleep, and as much longer as is its turn."""
        assert seconds > 0
        late_ns = self._oversleeps_ns[self.sleeps % len(self._oversleeps_ns)]
        self.at_ns += round(seconds * 1e9) + late_ns
        self.sleeps += 1

    @property
    def clock(self) -> Clock:
        """What the loop is given."""
        return Clock(self.now_ns, self.sleep_s)


schedules = st.lists(st.integers(0, 5_000_000), min_size=1, max_size=40).map(
    lambda gaps: np.cumsum(np.array(gaps, np.int64))
)
oversleeps = st.lists(st.integers(0, 3_000_000), min_size=1, max_size=8).map(tuple)


@given(schedules, st.integers(1, 5000), oversleeps, st.integers(0, 1_000_000))
def test_every_query_is_issued_once_in_order_and_never_early(
    due_ns: np.ndarray, tick_ns: int, late_ns: tuple[int, ...], margin_ns: int
) -> None:
    issued: list[int] = []
    stepping = SteppingClock(tick_ns, late_ns)
    issued_ns = pace(due_ns, issued.append, ORIGIN_NS, margin_ns, stepping.clock)
    assert issued == list(range(len(due_ns)))
    assert (lateness_ns(due_ns, issued_ns, ORIGIN_NS) >= 0).all()
    assert (np.diff(issued_ns) > 0).all()


@given(schedules, st.integers(1, 50), st.integers(0, 400_000))
def test_a_margin_above_every_oversleep_leaves_only_the_spin(
    due_ns: np.ndarray, tick_ns: int, late_ns: int
) -> None:
    stepping = SteppingClock(tick_ns, (late_ns,))
    margin_ns = late_ns + 10 * tick_ns
    issued_ns = pace(due_ns, lambda _: None, ORIGIN_NS, margin_ns, stepping.clock)
    # Looks the loop takes at the clock add up where many queries are due at once, no more.
    assert lateness_ns(due_ns, issued_ns, ORIGIN_NS).max() <= 3 * tick_ns * len(due_ns)


def test_a_backlog_is_issued_at_once_and_the_schedule_is_not_moved() -> None:
    due_ns = np.arange(10, dtype=np.int64) * 1_000_000
    stepping = SteppingClock(1)

    def stall(query: int) -> None:
        stepping.at_ns += 5_500_000 if query == 0 else 0

    late_ns = lateness_ns(due_ns, pace(due_ns, stall, ORIGIN_NS, 0, stepping.clock), ORIGIN_NS)
    assert (np.diff(late_ns[1:6]) < 0).all()
    assert late_ns[1] // 1_000_000 == 4
    assert late_ns[6:].max() < 10


def test_a_stop_ends_it_where_it_is() -> None:
    due_ns = np.arange(10, dtype=np.int64) * 1_000_000
    issued: list[int] = []
    issued_ns = pace(
        due_ns, issued.append, ORIGIN_NS, 0, SteppingClock().clock, lambda: len(issued) == 3
    )
    assert issued == [0, 1, 2]
    assert len(issued_ns) == 3


def test_a_stop_is_heard_in_a_long_sleep() -> None:
    stepping = SteppingClock()
    hour_ns = np.array([3_600 * 10**9], np.int64)
    issued_ns = pace(
        hour_ns,
        lambda _: pytest.fail("issued"),
        ORIGIN_NS,
        0,
        stepping.clock,
        lambda: stepping.sleeps == 2,
    )
    assert issued_ns.size == 0
    assert stepping.at_ns - ORIGIN_NS < 10**9


def test_the_collector_is_off_meanwhile_and_on_after_a_failure() -> None:
    def fail(_: int) -> None:
        assert not gc.isenabled()
        raise ValueError

    with pytest.raises(ValueError):
        pace(np.zeros(1, np.int64), fail, ORIGIN_NS, 0, SteppingClock().clock)
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("late_ns", "margin_ns"),
    [(0, MIN_MARGIN_NS), (100_000, 200_000), (10**7, MAX_MARGIN_NS)],
)
def test_the_margin_follows_how_late_the_machine_wakes(late_ns: int, margin_ns: int) -> None:
    found_ns = calibrate_margin_ns(SteppingClock(1, (late_ns,)).clock)
    assert abs(found_ns - margin_ns) < 10


def test_one_late_wake_up_in_a_hundred_does_not_widen_the_margin() -> None:
    rare = (60_000,) * 149 + (10**7,)
    assert calibrate_margin_ns(SteppingClock(1, rare).clock) < 120_010


def test_on_the_real_clock_nothing_is_early_beside_a_busy_thread() -> None:
    import time

    ended = threading.Event()
    busy = threading.Thread(target=lambda: [sum(range(100)) for _ in iter(ended.is_set, True)])
    busy.start()
    due_ns = np.arange(200, dtype=np.int64) * 500_000
    origin_ns = time.monotonic_ns() + 1_000_000
    issued_ns = pace(due_ns, lambda _: None, origin_ns, 100_000)
    ended.set()
    busy.join()
    assert issued_ns.size == 200
    assert lateness_ns(due_ns, issued_ns, origin_ns).min() >= 0
