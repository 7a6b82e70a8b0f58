"""What a run on a GPU says of its copies: conditions and caveats, with stand-ins for the device."""

from dataclasses import replace
from typing import Any

import pytest

from schemas.run import Conditions, RunCompleted
from services.agent.predictors import Opened
from services.agent.predictors.page_locking import LOCKED, PAGEABLE
from services.agent.worker.control import Control
from services.agent.worker.device_copies import copy_caveats
from services.agent.worker.group import Group
from services.agent.worker.session import Session
from tests.services.agent.builders import a_run, an_order


class OnGpu:
    """A predictor that says it is on a GPU."""

    def __init__(self, inner: Any, **memory: str) -> None:
        self.predict, self.close = inner.predict, inner.close
        self.opened: Opened = replace(inner.opened, device="gpu", **memory)


class Dividing(OnGpu):
    """One that tells copies from computing."""

    def predict_parts(self, inputs: Any) -> Any:
        """Return the outputs; no part took any time."""
        return self.predict(inputs), ()


def copies_of(session: Session) -> tuple[str, str, str]:
    """Return what a session's conditions say of copies."""
    conditions = session.conditions(None, {})
    return conditions.host_memory, conditions.output_memory, conditions.copies


def test_nothing_is_copied_on_a_cpu(session: Session) -> None:
    assert copies_of(session) == ("", "", "")
    assert copy_caveats(session.conditions(None, {})) == []


def test_conditions_say_which_memory_a_gpu_copies_and_whether_that_is_told_apart(
    session: Session,
) -> None:
    slow = OnGpu(session.predictor, host_memory=PAGEABLE, output_memory=PAGEABLE)
    assert copies_of(replace(session, predictor=slow)) == (PAGEABLE, PAGEABLE, "together")
    fast = Dividing(session.predictor, host_memory=LOCKED, output_memory=LOCKED)
    assert copies_of(replace(session, predictor=fast)) == (LOCKED, LOCKED, "apart")
    silent = OnGpu(session.predictor)
    assert copies_of(replace(session, predictor=silent)) == ("unknown", "unknown", "together")


@pytest.mark.parametrize(
    ("kinds", "caveats"),
    [
        ((LOCKED, LOCKED, "apart"), []),
        ((PAGEABLE, PAGEABLE, "apart"), ["net copies inputs from and outputs into pageable"]),
        ((LOCKED, PAGEABLE, "apart"), ["net copies outputs into pageable memory, which"]),
        (("unknown", LOCKED, "apart"), ["net does not say whether"]),
        ((LOCKED, LOCKED, "together"), ["copies are not timed separately from computing for net"]),
    ],
)
def test_caveats_name_slow_memory_and_copies_that_are_not_told_apart(
    kinds: tuple[str, str, str], caveats: list[str]
) -> None:
    host, output, copies = kinds
    conditions = Conditions(framework="net", host_memory=host, output_memory=output, copies=copies)
    said = copy_caveats(conditions)
    assert len(said) == len(caveats)
    assert all(text.startswith(start) for text, start in zip(said, caveats, strict=True))


def test_inputs_on_the_device_are_not_copied() -> None:
    there = Conditions(framework="net", inputs="device", host_memory=PAGEABLE, copies="apart")
    assert copy_caveats(there) == []


def completed_by(session: Session, predictor: Any) -> RunCompleted:
    """Return the outcome of a run in which a `predictor` takes the place of the session's own."""
    order = an_order(runs=(a_run("r0"),))
    opened = replace(session, predictor=predictor)
    (outcome,) = Group(opened, order, Control(), lambda _: True, lambda _: None).perform()
    assert isinstance(outcome, RunCompleted)
    return outcome


def test_a_run_on_a_gpu_says_so(session: Session) -> None:
    reason = "CUDA error: out of memory"
    memory = {"host_memory": PAGEABLE, "output_memory": PAGEABLE, "memory_reason": reason}
    outcome = completed_by(session, OnGpu(session.predictor, **memory))
    assert (outcome.conditions.inputs, outcome.conditions.copies) == ("host", "together")
    (slowness,) = [note for note in outcome.caveats if "pageable memory" in note]
    assert slowness.endswith("page-locked memory (CUDA error: out of memory)")
    assert [note for note in outcome.caveats if "not timed separately" in note]
