"""A durable in memory: what is out, when it comes again, how far all is done."""

import pytest

from mlscope.bus.streams import Durable, Stream
from mlscope.testing.memory_bus.durable import DurableState
from mlscope.testing.memory_bus.log import Log

BOUND = Durable("d", "LOG", ("a.x",), ack_wait_s=10.0, max_ack_pending=3)


@pytest.fixture
def log() -> Log:
    log = Log(Stream("LOG", ("a.>",)), lambda: 0.0)
    for subject in ("a.x", "a.y", "a.x", "a.x", "a.x"):
        log.append(subject, b"")
    return log


@pytest.fixture
def durable(log: Log) -> DurableState:
    return DurableState(BOUND, log)


def taken(durable: DurableState, batch: int, now_s: float) -> list[tuple[int, int]]:
    """Return (sequence, tries) of what is delivered."""
    return [(kept.sequence, tries) for kept, tries in durable.take(batch, now_s)]


def test_only_its_filter_and_only_so_many_at_a_time(durable: DurableState) -> None:
    assert taken(durable, 2, 0.0) == [(1, 1), (3, 1)]
    assert taken(durable, 9, 0.0) == [(4, 1)]
    durable.end(1)
    assert taken(durable, 9, 0.0) == [(5, 1)]


def test_what_is_not_ended_comes_again_before_what_is_new(durable: DurableState) -> None:
    taken(durable, 2, 0.0)
    durable.end(3)
    assert taken(durable, 1, 9.9) == [(4, 1)]
    assert taken(durable, 2, 10.0) == [(1, 2), (5, 1)]


def test_postponing_moves_what_is_out_and_nothing_else(durable: DurableState) -> None:
    taken(durable, 1, 0.0)
    durable.postpone(1, 50.0)
    durable.postpone(4, 1.0)
    assert durable.next_due_s() == 50.0
    assert taken(durable, 1, 49.0) == [(3, 1)]


def test_what_was_purged_does_not_come_again(durable: DurableState, log: Log) -> None:
    taken(durable, 2, 0.0)
    log.purge("a.x", 1)
    assert taken(durable, 1, 10.0) == [(3, 2)]


def test_acknowledged_is_up_to_the_first_that_is_out(durable: DurableState) -> None:
    assert durable.acknowledged() == 0
    taken(durable, 3, 0.0)
    durable.end(1)
    assert durable.acknowledged() == 2
    for sequence in (3, 4):
        durable.end(sequence)
    assert durable.acknowledged() == 4
    assert durable.next_due_s() is None
