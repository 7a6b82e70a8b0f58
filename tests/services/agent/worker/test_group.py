"""Runs of a group in one process: interleaved, fed, stopped."""

import contextlib
import gc
import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.load.stop_rule import RESULT_RULE
from mlscope.tracing.batches import columns_of
from mlscope.tracing.clock import now_ns
from schemas.batch import Batch, QueriesAnswered, TraceCaptured
from schemas.manifest import Step
from schemas.plan import RunPlan, Subject, WorkOrder
from schemas.request import Blocks
from schemas.run import RunCompleted, RunFailed
from services.agent.link.batches import unpack_batch
from services.agent.link.channel import WorkerChannel
from services.agent.link.messages import (
    AttemptKey,
    IssueQuery,
    LoadAwaited,
    Outcome,
    PerformOrder,
    QueryAnswered,
    ToHost,
)
from services.agent.link.ring import Handover
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.opening import open_session
from services.agent.worker.session import Session
from services.agent.worker.worker import Worker
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order

BLOCKS = Blocks(least=3, most=3)
KNOWN = RESULT_RULE.model_copy(update={"interval": 0.9, "budget_s": 600.0})


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the identity model."""
    scratch = tmp_path_factory.mktemp("scratch")
    opened = open_session(a_subject(blocks=BLOCKS), 1, MANIFESTS, scratch)
    yield opened
    opened.close()


class Room:
    """A group of runs, with its messages."""

    def __init__(self, session: Session, *runs: RunPlan, blocks: Blocks = BLOCKS) -> None:
        self.control = Control()
        self.messages: queue.SimpleQueue[ToHost] = queue.SimpleQueue()
        self.batches: list[Batch] = []
        order = an_order(a_subject(blocks=blocks), runs)
        self.group = Group(session, order, self.control, self._take, self.messages.put)

    def stop(self, run: str, reason: str) -> None:
        """Stop a run."""
        self.control.stop(AttemptKey("e1", run, 1), reason)

    def perform(self) -> list[Outcome]:
        """Do all."""
        return list(self.group.perform())

    def ask(self, index: int, *samples: int, **more: Any) -> str:
        """Offer a remote query; return why it is refused."""
        query = IssueQuery(AttemptKey("e1", "r0", 1), index, samples, now_ns(), **more)
        return self.control.offer(query)

    def message(self) -> ToHost:
        """Return the next message."""
        return self.messages.get(timeout=30)

    def _take(self, body: bytes) -> bool:
        self.batches.append(unpack_batch(body))
        return True


@pytest.fixture
def no_other_collections() -> Iterator[None]:
    """Collect only where asked to, and nothing was excluded from collections before."""
    thresholds = gc.get_threshold()
    gc.set_threshold(0)
    gc.unfreeze()
    yield
    gc.freeze()
    gc.set_threshold(*thresholds)


def perform_in_worker(session: Session, order: WorkOrder, folder: Path) -> None:
    """Do an order as a worker whose session is open."""
    ours, theirs = socket.socketpair()
    handover = Handover.create(1 << 20, 1 << 20, folder)
    with ours, theirs, contextlib.closing(handover):
        worker = Worker(WorkerChannel(theirs), handover, folder)
        worker._session = session
        assert worker._perform(PerformOrder(order, MANIFESTS))


@pytest.mark.usefixtures("no_other_collections")
def test_what_frameworks_made_is_collected_once_not_in_every_block(
    session: Session, tmp_path: Path
) -> None:
    frozen: list[int] = []

    def note(phase: str, told: dict[str, int]) -> None:
        if phase == "start" and told["generation"] == 2:
            frozen.append(gc.get_freeze_count())

    gc.callbacks.append(note)
    try:
        perform_in_worker(session, an_order(a_subject(blocks=BLOCKS)), tmp_path)
    finally:
        gc.callbacks.remove(note)
    first, in_first, after_first, *of_blocks = frozen
    assert first == 0
    assert len(of_blocks) == BLOCKS.most - 1
    assert in_first > 0
    assert min(of_blocks) > after_first
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_what_others_excluded_from_collections_stays_so(session: Session) -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    Room(session, a_run("r0")).perform()
    assert gc.get_freeze_count() > 0.9 * before


def _warmed_slots(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of slots which each capture is warmed with."""
    kind = type(session.predictor)
    warmed: list[int] = []
    layers = kind.layers  # type: ignore[attr-defined]

    def noted(self: Any, inputs: Any) -> Any:
        warmed.append(len(inputs))
        return layers(self, inputs)

    monkeypatch.setattr(kind, "layers", noted)
    return warmed


def test_a_capture_is_warmed_with_the_one_slot_that_its_run_uses(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed = _warmed_slots(session, monkeypatch)
    (outcome,) = Room(session, a_run("r0", level="framework")).perform()
    assert isinstance(outcome, RunCompleted)
    assert len(session.slots) > 1
    assert warmed == [1] * BLOCKS.most


def test_local_runs_end_together_after_as_many_blocks(session: Session) -> None:
    outcomes = Room(session, a_run("a"), a_run("b", queries=7)).perform()
    assert [outcome.run for outcome in outcomes] == ["a", "b"]
    for outcome, queries in zip(outcomes, (5, 7), strict=True):
        assert isinstance(outcome, RunCompleted)
        assert [block.queries for block in outcome.blocks] == [queries] * 3


@pytest.mark.parametrize(
    ("rule", "blocks", "ended"),
    [
        (Blocks(least=2, most=9, budget_s=1e-9), 2, "budget"),
        (Blocks(least=1, most=3, budget_s=3600.0), 3, "most"),
        (BLOCKS, 3, "least"),
    ],
)
def test_a_run_says_what_ended_its_blocks(
    session: Session, rule: Blocks, blocks: int, ended: str
) -> None:
    (outcome,) = Room(session, a_run("a", queries=50), blocks=rule).perform()
    assert isinstance(outcome, RunCompleted)
    assert (len(outcome.blocks), outcome.conditions.blocks_ended) == (blocks, ended)


def test_a_budget_that_ended_too_early_is_a_caveat(session: Session) -> None:
    rule = Blocks(least=1, most=9, interval=1e-9, budget_s=1e-9)
    (outcome,) = Room(session, a_run("a"), blocks=rule).perform()
    assert isinstance(outcome, RunCompleted)
    assert any("its budget of 1e-09 s spent" in each for each in outcome.caveats)


def test_without_a_rule_of_ones_own_the_result_is_measured_until_it_is_known(
    session: Session,
) -> None:
    (outcome,) = Room(session, a_run("a", queries=30), blocks=KNOWN).perform()
    assert isinstance(outcome, RunCompleted)
    ended, answered = outcome.conditions.blocks_ended, sum(b.queries for b in outcome.blocks)
    is_early = any(caveat.startswith("ended at") for caveat in outcome.caveats)
    assert (ended == "interval") != is_early
    assert len(outcome.blocks) >= 3
    assert answered >= 64


def test_a_result_that_its_budget_ends_is_a_caveat_of_the_least_level(session: Session) -> None:
    rule = KNOWN.model_copy(update={"budget_s": 1e-9})
    runs = a_run("a"), a_run("b", level="framework")
    first, second = Room(session, *runs, blocks=rule).perform()
    assert isinstance(first, RunCompleted)
    assert isinstance(second, RunCompleted)
    for outcome in (first, second):
        assert (len(outcome.blocks), outcome.conditions.blocks_ended) == (1, "budget")
    assert "ended at 1 block, its budget of 1e-09 s spent: its " in " ".join(first.caveats)
    assert not any(caveat.startswith("ended at") for caveat in second.caveats)


def test_a_stopped_run_ends_first_and_takes_no_other_along(session: Session) -> None:
    room = Room(session, a_run("a"), a_run("b"))
    room.stop("b", "cancelled")
    performing = room.group.perform()
    first = next(performing)
    assert isinstance(first, RunFailed)
    assert (first.run, first.error, first.message) == ("b", "stopped", "cancelled")
    (other,) = performing
    assert isinstance(other, RunCompleted)
    assert (other.run, len(other.blocks)) == ("a", 3)


def test_a_load_that_can_t_be_made_fails_its_run_alone(session: Session) -> None:
    odd = a_run("odd", scenario="poisson", rate_hz=-1)
    first, other = Room(session, odd, a_run("b")).perform()
    assert isinstance(first, RunFailed)
    assert (first.run, first.error) == ("odd", "open")
    assert isinstance(other, RunCompleted)


def test_a_remote_run_is_fed_until_its_load_is_through(session: Session) -> None:
    room = Room(session, a_run(pacing="remote"))
    outcomes: list[Outcome] = []
    performing = threading.Thread(target=lambda: outcomes.extend(room.perform()))
    performing.start()
    assert room.message() == LoadAwaited("r0")
    assert [room.ask(0, 1), room.ask(1, 999), room.ask(2, 1, 2)] == ["", "", ""]
    messages = [room.message() for _ in range(3)]
    answers = {answer.query: answer for answer in messages if isinstance(answer, QueryAnswered)}
    room.control.finish(AttemptKey("e1", "r0", 1))
    performing.join(30)
    assert [answers[query].status for query in (0, 1, 2)] == [0, 1, 1]
    assert answers[0].service_ns > 0
    assert answers[1].error == "samples are numbered 0 to 63"
    assert answers[2].error == "2 samples; a query has 1"
    (outcome,) = outcomes
    assert isinstance(outcome, RunCompleted)
    assert [block.queries for block in outcome.blocks] == [1]
    assert room.ask(3, 1) == "no open run has this id"


def test_a_remote_run_s_batches_are_prepared_before_it_takes_queries(session: Session) -> None:
    body = np.full(4, 7, np.float32).tobytes()
    room = Room(session, a_run(pacing="remote", samples="ahead", queries=3))
    outcomes: list[Outcome] = []
    performing = threading.Thread(target=lambda: outcomes.extend(room.perform()))
    performing.start()
    assert room.message() == LoadAwaited("r0")
    # One of the plan, one of another batch, one with a sample of its own, and one that is none.
    asked = [room.ask(0, 1), room.ask(1, 60), room.ask(2, 1, payload=(body,)), room.ask(3, 999)]
    assert asked == [""] * 4
    messages = [room.message() for _ in range(4)]
    room.control.finish(AttemptKey("e1", "r0", 1))
    performing.join(30)
    answers = {answer.query: answer for answer in messages if isinstance(answer, QueryAnswered)}
    assert [answers[query].status for query in range(4)] == [0, 0, 0, 1]
    (outcome,) = outcomes
    assert isinstance(outcome, RunCompleted)
    assert (outcome.conditions.samples, outcome.conditions.prepared_batches) == ("ahead", 3)
    assert [block.queries for block in outcome.blocks] == [3]


def spans_in_queries(room: Room) -> set[str]:
    """Return the names of the spans that belong to a query."""
    names: set[str] = set()
    for fact in room.batches:
        if isinstance(fact, TraceCaptured):
            texts = dict(zip(fact.name_ids, fact.name_texts, strict=True))
            spans = zip(columns_of(fact)["name"], columns_of(fact)["query"], strict=True)
            names |= {texts[int(name)] for name, query in spans if query >= 0}
    return names


def test_a_local_open_loop_with_batches_prepared_ahead_counts_from_due_times(
    tmp_path: Path,
) -> None:
    session = open_session(a_subject_that_casts(), 1, MANIFESTS, tmp_path)
    run = a_run(scenario="fixed_rate", rate_hz=200, samples="ahead", queries=4)
    room = Room(session, run)
    (outcome,) = room.perform()
    session.close()
    assert isinstance(outcome, RunCompleted)
    assert outcome.conditions.samples == "ahead"
    columns = [columns_of(fact) for fact in room.batches if isinstance(fact, QueriesAnswered)]
    due_ns, issued_ns = (
        np.concatenate([of_batch[name] for of_batch in columns]).reshape(3, 4)
        for name in ("due_ns", "issued_ns")
    )
    assert (due_ns >= 0).all()
    assert (np.diff(due_ns, axis=1) == 5_000_000).all()
    assert (issued_ns >= due_ns).all()
    assert spans_in_queries(room) == {"query", "predict"}


def a_subject_that_casts() -> Subject:
    """Return the identity model with a step before it."""
    subject = a_subject(blocks=BLOCKS)
    steps = (Step(operator="cast", parameters={"element_type": "float32"}),)
    port = subject.model.inputs[0].model_copy(update={"steps": steps})
    model = subject.model.model_copy(update={"inputs": (port,)})
    return subject.model_copy(update={"model": model})


def test_a_capture_is_warmed_with_every_slot_of_batches_prepared_ahead(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed = _warmed_slots(session, monkeypatch)
    Room(session, a_run("r0", level="framework", samples="ahead", queries=5)).perform()
    assert warmed == [5] * BLOCKS.most


def test_a_remote_run_hears_a_stop_while_it_waits(session: Session) -> None:
    room = Room(session, a_run(pacing="remote"))
    performing = room.group.perform()
    outcomes: list[Outcome] = []
    waiting = threading.Thread(target=lambda: outcomes.append(next(performing)))
    waiting.start()
    room.message()
    room.stop("r0", "cancelled")
    waiting.join(30)
    (outcome,) = outcomes
    assert isinstance(outcome, RunFailed)
    assert (outcome.error, outcome.message) == ("stopped", "cancelled")
