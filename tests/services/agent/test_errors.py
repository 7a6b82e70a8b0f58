"""Every error has a kind that the contract of `RunFailed` names."""

import inspect

import pytest

from schemas.run import RunFailed
from services.agent import errors
from services.agent.errors import AgentError, BatchSizeUnsupported, RunTimedOut, WorkerDied

EVERY = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, AgentError)
]


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_a_kind_is_one_of_the_contract_s(kind: type[AgentError]) -> None:
    documented = (RunFailed.__doc__ or "").partition("`error` names the kind:")[2]
    assert kind.kind in documented.replace("\n", " ").strip(" .").replace(" ", "").split(",")


def test_only_a_lost_worker_may_be_tried_again() -> None:
    retried = {kind.__name__ for kind in EVERY if kind.kind == "worker_died"}
    assert retried == {"WorkerDied", "RingBroken", "DeviceLost"}


def test_a_message_names_what_a_reader_must_know() -> None:
    assert str(WorkerDied("exited with 3", "MemoryError")) == "worker exited with 3: MemoryError"
    assert str(WorkerDied("exited with 3")) == "worker exited with 3"
    assert str(RunTimedOut(1.5, "the run")) == "the run took longer than 1.5 s"
    named = "batch size 3 does not fit input x of shape [1, 4]"
    assert str(BatchSizeUnsupported(3, "x", (1, 4))) == named
