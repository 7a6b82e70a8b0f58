"""The loop that issues a schedule, and how its process gets ahead of others."""

import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.load import issuing
from mlscope.load.issuing import (
    MAX_MARGIN_NS,
    MIN_MARGIN_NS,
    PRIORITIES,
    SLICE_NS,
    Clock,
    calibrate_margin_ns,
    issue_on_time,
    raise_priority,
)

ORIGIN_NS = 1_000_000_000


class Time:
    """A clock that moves a little at each look and by each sleep."""

    def __init__(self) -> None:
        self.at_ns = ORIGIN_NS - 50
        self.slept_ns: list[int] = []

    def now_ns(self) -> int:
        """Move on by ten nanoseconds."""
        self.at_ns += 10
        return self.at_ns

    def sleep_s(self, seconds: float) -> None:
        """Sleep as long as told."""
        self.slept_ns.append(round(seconds * 1e9))
        self.at_ns += self.slept_ns[-1]

    @property
    def clock(self) -> Clock:
        """Return it as the loop takes it."""
        return Clock(self.now_ns, self.sleep_s)


@given(st.lists(st.integers(0, 10**9), max_size=20).map(sorted), st.integers(0, 500_000))
def test_each_query_is_issued_at_its_time_and_sleeps_end_before(
    due_ns: list[int], margin_ns: int
) -> None:
    time, issued = Time(), list[tuple[int, int]]()
    count = issue_on_time(
        due_ns, lambda *each: issued.append(each), ORIGIN_NS, margin_ns, time.clock
    )
    assert count == len(due_ns)
    assert [query for query, _ in issued] == list(range(len(due_ns)))
    # Each look moves the clock by 10 ns; some looks belong to the query before.
    assert all(
        0 <= at - ORIGIN_NS - due <= 30 * len(due_ns) + 60
        for (_, at), due in zip(issued, due_ns, strict=True)
    )
    assert all(slept <= SLICE_NS for slept in time.slept_ns)


@given(st.integers(0, 10))
def test_a_stop_tells_how_many_were_issued(stop_after: int) -> None:
    issued: list[int] = []
    count = issue_on_time(
        range(0, 10_000, 1000),
        lambda query, _: issued.append(query),
        ORIGIN_NS,
        0,
        Time().clock,
        stopped=lambda: len(issued) >= stop_after,
    )
    assert count == len(issued) == stop_after


def test_an_empty_schedule_issues_nothing() -> None:
    assert issue_on_time([], lambda *_: None, ORIGIN_NS, 0, Time().clock) == 0


def lateness(*late_ns: int) -> Clock:
    """Return a clock whose sleeps end so late, in turn."""
    time, turns = Time(), iter(late_ns)

    def sleep_s(seconds: float) -> None:
        time.at_ns += round(seconds * 1e9) + next(turns) - 10

    return Clock(time.now_ns, sleep_s)


@pytest.mark.parametrize(
    ("late_ns", "margin_ns"),
    [
        ([100_000], 200_000),
        ([0], MIN_MARGIN_NS),
        ([10**9], MAX_MARGIN_NS),
        ([100_000] * 99 + [10**9], 200_000),
        ([100_000] * 98 + [150_000] * 2, 300_000),
        ([200_000], MAX_MARGIN_NS),
        ([40_000], MIN_MARGIN_NS),
        ([41_000], 82_000),
    ],
)
def test_the_margin_is_twice_what_is_ordinary(late_ns: list[int], margin_ns: int) -> None:
    assert calibrate_margin_ns(lateness(*late_ns), naps=len(late_ns)) == margin_ns


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend there are two cores, whatever there is."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")


def _denied(*_: object) -> None:
    raise PermissionError


@pytest.mark.parametrize(
    ("may_be_real_time", "may_be_nice", "priority"),
    [(True, True, "fifo"), (False, True, "nice"), (False, False, "normal")],
)
@pytest.mark.usefixtures("two_cores")
def test_it_goes_as_far_as_it_may(
    monkeypatch: pytest.MonkeyPatch, may_be_real_time: bool, may_be_nice: bool, priority: str
) -> None:
    asked: list[object] = []
    first = asked.append if may_be_real_time else _denied
    monkeypatch.setattr(os, "sched_setscheduler", lambda pid, *_: first(pid), raising=False)
    second = asked.append if may_be_nice else _denied
    monkeypatch.setattr(os, "setpriority", lambda _, pid, __: second(pid))
    assert PRIORITIES[raise_priority()] == priority
    assert asked == ([] if priority == "normal" else [0])


@pytest.mark.usefixtures("two_cores")
def test_where_there_is_one_core_it_stays_as_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    monkeypatch.setattr(os, "sched_setscheduler", _denied, raising=False)
    assert raise_priority() == 0


def test_a_parent_that_closes_its_end_starts_nothing() -> None:
    read_fd, write_fd = os.pipe()
    os.close(write_fd)
    assert not issuing._wait_for_start(read_fd, os.getppid())
    os.close(read_fd)


def test_a_byte_starts_it_unless_the_parent_died_before() -> None:
    read_fd, write_fd = os.pipe()
    assert not issuing._wait_for_start(read_fd, parent=-1)
    os.write(write_fd, b"\0")
    assert issuing._wait_for_start(read_fd, os.getppid())
    os.close(read_fd)
    os.close(write_fd)
