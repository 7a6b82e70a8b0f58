"""Calls whose copies overlap other calls: who gets them, their queries, failures and ends."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlscope.tracing.clock import now_ns
from schemas.run import RunFailed
from services.agent.errors import PredictFailed
from services.agent.link.messages import AttemptKey
from services.agent.predictors import COMPUTE, COPY_IN, COPY_OUT, CallPart, Pending, Tensors
from services.agent.worker.control import Control
from services.agent.worker.opening import SessionEnvironment, open_session, open_session_in
from services.agent.worker.queries.ahead import MAX_PARTS_CALLS
from services.agent.worker.queries.pipeline import CALL
from services.agent.worker.queries.pool_filling import PoolFilling
from services.agent.worker.session import Session
from tests.services.agent.builders import MANIFESTS, a_run, a_subject
from tests.services.agent.worker.test_preparing_ahead import Changed, Raising, Recorded
from tests.services.agent.worker.test_preparing_ahead import pictures as torn_pictures

BATCHED: dict[str, Any] = {"scenario": "batched", "samples": "ahead", "queries": 6}


class Overlapping(Changed):
    """A predictor that computes a call when it is waited for, and counts those under way."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.under_way = self.most_under_way = 0

    def begin(self, inputs: Tensors) -> Pending:
        """Begin a call."""
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        return PendingCall(self, inputs)


class PendingCall:
    """A call of it that was begun."""

    def __init__(self, predictor: Overlapping, inputs: Tensors) -> None:
        self.predictor, self.inputs = predictor, inputs

    def wait(self) -> Tensors:
        """Return the outputs."""
        self.predictor.under_way -= 1
        return self.predictor.predict(self.inputs)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Session]:
    session = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    yield session
    session.close()


def test_overlapped_calls_leave_what_calls_one_by_one_leave(plain: Session) -> None:
    predictor = Overlapping(plain.predictor)
    overlapped = Recorded(replace(plain, predictor=predictor), a_run("r", **BATCHED)).perform()
    one_by_one = Recorded(plain, a_run("r", **BATCHED)).perform()
    assert predictor.most_under_way == 2
    assert predictor.under_way == 0
    assert overlapped.queries("r") == one_by_one.queries("r")
    assert overlapped.answers("r") == one_by_one.answers("r")
    assert overlapped.spans("r") == one_by_one.spans("r")
    assert overlapped.completed("r").conditions.calls_in_flight == 2
    assert one_by_one.completed("r").conditions.calls_in_flight == 1


@pytest.mark.parametrize(
    ("level", "changes"),
    [
        ("framework", {}),
        ("model", {"scenario": "online"}),
        ("model", {"samples": "streamed"}),
    ],
)
def test_calls_are_made_one_by_one_where_levels_or_queries_ask_for_it(
    plain: Session, level: str, changes: dict[str, Any]
) -> None:
    predictor = Overlapping(plain.predictor)
    runs = [a_run("r", **{**BATCHED, **changes}), a_run("deep", level=level, **BATCHED)]
    wanted = runs if level == "framework" else runs[:1]
    recorded = Recorded(replace(plain, predictor=predictor), *wanted).perform()
    assert predictor.most_under_way == 0
    assert recorded.completed("r").conditions.calls_in_flight == 1


class Slow(Overlapping):
    """One whose calls take longer than it takes to prepare their pictures."""

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs after some time."""
        time.sleep(0.1)
        return super().predict(inputs)


class RaisingSlow(Slow, Raising):
    """One that raises for a sample besides."""


@pytest.fixture
def pictures(tmp_path: Path) -> Iterator[Session]:
    """Open a model of pictures that processes prepare; one of them is torn."""
    subject, manifests = torn_pictures(tmp_path)
    environment = SessionEnvironment(tmp_path / "scratch", in_flight=4)
    session = open_session_in(environment, subject, 2, manifests, {})
    yield session
    session.close()


@pytest.mark.parametrize(
    "kinds", [(Changed, Slow), pytest.param((Raising, RaisingSlow), marks=pytest.mark.long)]
)
def test_streamed_calls_overlap_and_leave_what_calls_one_by_one_leave(
    pictures: Session, kinds: tuple[type[Changed], type[Slow]]
) -> None:
    run = a_run("r", scenario="batched", samples="streamed", queries=6, concurrency=4)
    # What the model takes of the second good picture, for which one kind raises; runs reuse slots.
    prepared = pictures.slots[0].arrays[0][1].copy()
    recorded = []
    for kind in kinds:
        predictor = kind(pictures.predictor)
        if isinstance(predictor, Raising):
            predictor.samples = [None, prepared]
        session = replace(pictures, predictor=predictor)
        recorded.append(Recorded(session, run, batch_size=2).perform())
    one_by_one, overlapped = recorded
    assert isinstance(predictor, Slow)
    assert (predictor.most_under_way, predictor.under_way) == (2, 0)
    assert overlapped.queries("r") == one_by_one.queries("r")
    assert overlapped.answers("r") == one_by_one.answers("r")
    assert overlapped.errors("r") == one_by_one.errors("r")
    assert sorted(overlapped.spans("r")) == sorted(one_by_one.spans("r"))
    assert overlapped.completed("r").conditions.calls_in_flight == 2
    assert one_by_one.completed("r").conditions.calls_in_flight == 1
    assert pictures.busy_since_ns() == 0


def test_an_answer_does_not_wait_for_samples_of_the_next_query(
    pictures: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PoolFilling, "is_filled", lambda _: False)
    predictor = Slow(pictures.predictor)
    session = replace(pictures, predictor=predictor)
    run = a_run("r", scenario="batched", samples="streamed", queries=6, concurrency=4)
    recorded = Recorded(session, run, batch_size=2).perform()
    assert (predictor.most_under_way, predictor.under_way) == (1, 0)
    assert recorded.completed("r").conditions.calls_in_flight == 2


class Parted(Changed):
    """A predictor that tells the parts of a call, each a third of it."""

    def predict_parts(self, inputs: Tensors) -> tuple[Tensors, Sequence[CallPart]]:
        """Return the outputs and the parts."""
        began = now_ns()
        outputs = self.predict(inputs)
        third = (now_ns() - began) // 3
        names = (COPY_IN, COMPUTE, COPY_OUT)
        return outputs, [CallPart(name, began + n * third, third) for n, name in enumerate(names)]


@pytest.mark.parametrize("level", ["application", "model"])
def test_the_parts_of_untimed_calls_are_recorded_apart(plain: Session, level: str) -> None:
    session = replace(plain, predictor=Parted(plain.predictor))
    run = a_run("r", level=level, queries=4, samples="ahead")
    spans = Recorded(session, run).perform().spans("r")
    untimed = Counter(name for name, query, block in spans if query == block == -1)
    calls = MAX_PARTS_CALLS if level == "model" else 0
    assert [untimed[name] for name in (CALL, COPY_IN, COMPUTE, COPY_OUT)] == [calls] * 4
    timed = Counter(name for name, _, block in spans if block >= 0)
    assert set(timed) <= {"query", "predict"}


class RaisingOverlapped(Overlapping, Raising):
    """One that raises for a sample when the call is waited for."""


def test_a_call_that_fails_fails_its_query_alone(tmp_path: Path) -> None:
    plain = open_session(a_subject(), 2, MANIFESTS, tmp_path)
    outcomes = []
    for predictor in (Raising(plain.predictor), RaisingOverlapped(plain.predictor)):
        predictor.samples = plain.supply.samples
        session = replace(plain, predictor=predictor)
        recorded = Recorded(session, a_run("r", **BATCHED), batch_size=2).perform()
        outcomes.append((recorded.queries("r"), recorded.errors("r"), recorded.answers("r")))
    plain.close()
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1]


class Refusing(Overlapping):
    """One whose calls can't be begun from the fourth on, as those of a device that is lost."""

    def begin(self, inputs: Tensors) -> Pending:
        """Begin a call, or raise."""
        if self.calls >= 10:
            raise PredictFailed("CUDA error: an illegal memory access was encountered")
        return super().begin(inputs)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs, or raise."""
        if self.calls >= 10:
            raise PredictFailed("CUDA error: an illegal memory access was encountered")
        return super().predict(inputs)


def test_a_device_that_is_lost_while_calls_overlap_fails_the_run(plain: Session) -> None:
    session = replace(plain, predictor=Refusing(plain.predictor))
    outcome = Recorded(session, a_run("r", **BATCHED)).perform().outcomes["r"]
    assert isinstance(outcome, RunFailed)
    assert "illegal memory access" in outcome.message
    assert session.busy_since_ns() == 0


class Stopping(Overlapping):
    """One during whose ninth call the run is stopped."""

    control = Control()

    def predict(self, inputs: Tensors) -> Tensors:
        """Stop the run."""
        if self.calls == 8:
            self.control.stop(AttemptKey("e1", "r", 1), "cancelled")
        return super().predict(inputs)


def test_a_run_is_stopped_while_calls_overlap(plain: Session) -> None:
    stopping = Stopping(plain.predictor)
    recorded = Recorded(replace(plain, predictor=stopping), a_run("r", **BATCHED))
    stopping.control = recorded.control
    outcome = recorded.perform().outcomes["r"]
    assert isinstance(outcome, RunFailed)
    assert outcome.error == "stopped"
    assert plain.busy_since_ns() == 0
