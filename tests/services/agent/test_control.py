"""What reaches a worker from outside."""

import numpy as np
import pytest

from services.agent.control import MOST_WAITING, Control, RemoteQuery, remote_query

RUN = ("e1", "r0", 1)


def a_query(index: int = 0) -> RemoteQuery:
    return RemoteQuery(index, 0, [0], 1)


def test_queries_wait_for_the_run_that_admits_them() -> None:
    control = Control()
    assert control.offer(RUN, a_query()) == "no such run takes queries"
    intake = control.admit(RUN)
    assert control.offer(RUN, a_query(7)) == ""
    control.finish(RUN)
    first = intake.waiting.get()
    assert first is not None
    assert first.index == 7
    assert intake.waiting.get() is None


def test_waiting_queries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    control = Control()
    control.admit(RUN)
    for index in range(MOST_WAITING):
        assert control.offer(RUN, a_query(index)) == ""
    assert control.offer(RUN, a_query()).startswith("busy")


def test_a_stop_before_the_run_began_is_kept() -> None:
    control = Control()
    control.stop(RUN, "cancelled")
    assert control.stop_reason(RUN) == "cancelled"
    control.forget(RUN)
    assert control.stop_reason(RUN) is None


def test_a_stop_wakes_whoever_waits() -> None:
    control, called = Control(), list[str]()
    intake = control.admit(RUN)
    control.stop_with(RUN, lambda: called.append("pacer"))
    control.stop(RUN, "")
    assert called == ["pacer"]
    assert intake.waiting.get() is None


def test_a_query_names_its_samples() -> None:
    words = {"query": 4, "block": 1, "samples": np.array([9, 2], "<i4").tobytes()}
    query = remote_query(words)
    assert (query.index, query.block, query.samples) == (4, 1, [9, 2])


def test_a_query_waits_from_when_the_agent_got_it() -> None:
    assert remote_query({"query": 4, "samples": b"", "received_ns": 5}).arrived_ns == 5


@pytest.mark.parametrize(
    "words",
    [
        {"samples": b""},
        {"query": 1},
        {"query": 1, "samples": b"123"},
        {"query": 1, "samples": b"\0\0\0\0", "payload": [b"a", b"b"]},
        {"query": "x", "samples": b""},
    ],
)
def test_a_query_that_makes_no_sense_is_an_error(words: dict[str, object]) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        remote_query(words)
