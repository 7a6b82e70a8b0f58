"""What reaches a worker's runs from outside."""

import pytest

from services.agent.errors import RunTimedOut, Stopped
from services.agent.link.messages import MOST_WAITING, AttemptKey, IssueQuery
from services.agent.worker.control import Control, Deadline

RUN = AttemptKey("e1", "r0", 1)


def a_query(index: int = 0) -> IssueQuery:
    return IssueQuery(RUN, index, (0,), 1)


def test_queries_wait_for_the_run_that_accepts_them() -> None:
    control = Control()
    assert control.offer(a_query()) == "no open run has this id"
    waiting = control.accept_queries(RUN)
    assert control.offer(a_query(7)) == ""
    control.finish(RUN)
    first = waiting.get()
    assert first is not None
    assert first.query == 7
    assert waiting.get() is None


def test_waiting_queries_are_bounded() -> None:
    control = Control()
    control.accept_queries(RUN)
    for index in range(MOST_WAITING):
        assert control.offer(a_query(index)) == ""
    assert control.offer(a_query()).startswith("busy")


def test_a_stop_before_the_run_began_is_kept() -> None:
    control = Control()
    control.stop(RUN, "cancelled")
    assert control.stop_reason(RUN) == "cancelled"
    control.forget(RUN)
    assert control.stop_reason(RUN) is None


def test_a_stop_wakes_whoever_waits() -> None:
    control, called = Control(), list[str]()
    waiting = control.accept_queries(RUN)
    control.call_on_stop(RUN, lambda: called.append("pacer"))
    control.stop(RUN, "")
    assert called == ["pacer"]
    assert waiting.get() is None


def test_a_run_ends_at_its_deadline() -> None:
    deadline = Deadline(Control(), RUN, 0.0)
    with deadline, pytest.raises(RunTimedOut):
        deadline.check()


def test_a_stopped_run_ends_before_its_deadline() -> None:
    control = Control()
    control.stop(RUN, "cancelled")
    with pytest.raises(Stopped, match="cancelled"):
        Deadline(control, RUN, 60.0).check()
