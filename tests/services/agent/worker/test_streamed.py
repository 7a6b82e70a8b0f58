"""Sessions whose runs stream their samples: who prepares them, and where nothing is started."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mlscope.tracing.batches import columns_of
from schemas.batch import TraceCaptured
from schemas.plan import RunPlan, Subject
from schemas.request import Blocks
from schemas.run import RunCompleted
from services.agent.errors import OpenFailed
from services.agent.link.allowances import Allowances, PreparationLimits
from services.agent.link.batches import unpack_batch
from services.agent.link.messages import PerformOrder
from services.agent.predictors import OpenRequest, Predictor
from services.agent.worker import opening
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.preparation.shares import LEAST_SLOTS, MOST_IN_FLIGHT
from services.agent.worker.session import Session
from services.agent.worker.session_opener import SessionOpener, streamed_in_flight
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order
from tests.services.agent.test_killed import children_of, read, until
from tests.services.agent.worker.preparation.pictures import GOOD, pictures

BATCH, QUERIES = 2, 6
_BATCH_BYTES = BATCH * 3 * 224 * 224 * 4
STREAMED = a_run("r0", scenario="batched", queries=QUERIES, concurrency=2, samples="streamed")
ONE_BLOCK = Blocks(least=1, most=1)


@contextmanager
def opened(
    manifests: Path,
    subject: Subject,
    *runs: RunPlan,
    processes: int = 64,
    model: Callable[[Session], Predictor] = lambda session: session.predictor,
) -> Iterator[tuple[Session, Group, list[bytes]]]:
    """Open a session for these runs, with the group that performs them and their batches.

    At most so many `processes` prepare samples; `model` returns what predicts them.
    """
    subject = subject.model_copy(update={"blocks": ONE_BLOCK})
    order = an_order(subject, runs, batch_size=BATCH)
    allowances = Allowances(preparation=PreparationLimits(processes))
    message = PerformOrder(order, manifests, allowances=allowances)
    batches: list[bytes] = []

    def keep(batch: bytes) -> bool:
        batches.append(batch)
        return True

    with closing(SessionOpener(message, manifests / "scratch").open()) as session:
        session = replace(session, predictor=model(session))
        yield session, Group(session, order, Control(), keep, lambda _: None), batches


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    """Return a model with good pictures."""
    whole = pictures(tmp_path)
    good = whole.dataset.samples[: len(GOOD)]
    dataset = whole.dataset.model_copy(update={"samples": good})
    return whole.model_copy(update={"dataset": dataset, "warmup": 3})


def threads_of(batches: list[bytes], name: str) -> list[int]:
    """Return the threads of the spans of a name."""
    threads: list[int] = []
    for fact in map(unpack_batch, batches):
        if isinstance(fact, TraceCaptured):
            columns = columns_of(fact)
            ids = dict(zip(fact.name_texts, fact.name_ids, strict=True))
            pairs = zip(columns["thread"], columns["name"], strict=True)
            threads += [int(thread) for thread, number in pairs if number == ids.get(name)]
    return threads


def test_the_process_that_others_are_forked_from_starts_before_the_model_opens(
    subject: Subject,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A fork of a process that uses CUDA could not."""
    started: list[bool] = []

    def open_nothing(request: OpenRequest) -> Predictor:
        started.append(until(has_fork_server, bool))  # its command is empty for a moment
        raise OpenFailed(request.model.name, "seen enough")

    monkeypatch.setattr(opening, "predictor_named", lambda _: open_nothing)
    with pytest.raises(OpenFailed, match="seen enough"), opened(tmp_path, subject, STREAMED):
        pass
    assert started == [True]
    assert not has_fork_server()
    # A worker that died later would be said to have died of its last line.
    assert "Traceback" not in capfd.readouterr().err


def has_fork_server() -> bool:
    """Return whether a thread of this process has started one."""
    return any(b"fork_server" in read(pid, "cmdline") for pid in children_of(os.getpid()))


def test_no_thread_of_the_predicting_process_prepares_streamed_samples(
    subject: Subject, tmp_path: Path
) -> None:
    with opened(tmp_path, subject, STREAMED) as (session, group, batches):
        (outcome,) = group.perform()
        assert isinstance(outcome, RunCompleted)
        assert outcome.conditions.prepare_processes >= 1
        assert outcome.conditions.prepare_threads == 0
        assert not [caveat for caveat in outcome.caveats if "process" in caveat]
        pool = session.supply.pool
        assert pool is not None
        assert pool.started is not None
        assert set(threads_of(batches, "decode")) <= set(pool.started.pids)
        assert len(threads_of(batches, "decode")) == QUERIES * BATCH
        assert set(threads_of(batches, "predict")).isdisjoint(pool.started.pids)


def test_every_slot_is_bound_before_the_clock_starts(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.agent.worker.opening.usable_cores", lambda: 8)
    many = a_run("r0", scenario="batched", queries=QUERIES, concurrency=9, samples="streamed")
    subject = subject.model_copy(update={"warmup": 1})
    with opened(tmp_path, subject, many) as (session, group, _):
        assert len(session.slots) == LEAST_SLOTS + 4  # 6 processes prepare 3 batches of 2
        assert all(slot.arrays[0].any() for slot in session.slots[LEAST_SLOTS:])
        (outcome,) = group.perform()
    assert isinstance(outcome, RunCompleted)
    assert outcome.tally.failed_queries == 0


def test_a_run_streamed_against_expectation_says_that_threads_prepared(
    subject: Subject, tmp_path: Path
) -> None:
    ahead = a_run("r1", scenario="batched", queries=QUERIES, concurrency=2, samples="ahead")
    with opened(tmp_path, subject, ahead) as (session, group, _):
        assert session.supply.pool is None
        session.prepared.refuse("the model changes its inputs in place")
        (outcome,) = group.perform()
    assert isinstance(outcome, RunCompleted)
    streamed, threads = outcome.caveats[:2]
    assert "changes its inputs in place" in streamed
    assert "none of the runs was expected to stream" in threads


def test_nothing_is_started_where_each_query_waits_for_the_one_before(
    subject: Subject, tmp_path: Path
) -> None:
    inline = a_run("r1", samples="streamed")
    with opened(tmp_path, subject, inline) as (session, group, _):
        assert session.supply.pool is None
        (outcome,) = group.perform()
    assert isinstance(outcome, RunCompleted)
    assert (outcome.conditions.prepare_processes, outcome.conditions.prepare_threads) == (0, 1)


def test_an_inline_run_beside_a_streamed_one_starts_no_process(
    subject: Subject, tmp_path: Path
) -> None:
    inline = a_run("r1", samples="streamed")
    with opened(tmp_path, subject, STREAMED, inline) as (session, group, _):
        assert session.supply.pool is not None
        assert not session.supply.pool.is_started
        outcomes = {outcome.run: outcome for outcome in group.perform()}
    conditions = [outcomes[run].conditions for run in ("r0", "r1")]
    assert [own.prepare_processes for own in conditions if own is not None] == [1, 0]


def test_tensors_and_a_limit_of_none_start_no_process(subject: Subject, tmp_path: Path) -> None:
    synthetic = a_subject("tiny_cnn", "noise32")
    with opened(MANIFESTS, synthetic, STREAMED) as (session, _, _):
        assert session.supply.pool is None
    with opened(tmp_path, subject, STREAMED, processes=0) as (session, group, _):
        assert session.supply.pool is None
        (outcome,) = group.perform()
    assert isinstance(outcome, RunCompleted)
    assert outcome.conditions.prepare_processes == 0


@pytest.mark.parametrize(
    ("plan", "in_flight"),
    [
        (STREAMED, 2),
        (a_run(scenario="batched", concurrency=9, samples="streamed"), 9),
        (a_run(scenario="batched", concurrency=900, samples="streamed"), MOST_IN_FLIGHT),
        (a_run(scenario="poisson", rate_hz=5.0, samples="streamed"), MOST_IN_FLIGHT),
        (a_run(samples="streamed", pacing="remote"), MOST_IN_FLIGHT),
        (a_run(samples="streamed"), 0),
        (a_run(scenario="batched", concurrency=2, samples="ahead"), 0),
        (a_run(scenario="cold"), 0),
        (a_run(scenario="batched", concurrency=-1), 0),
    ],
)
def test_queries_in_flight_while_samples_are_prepared(plan: RunPlan, in_flight: int) -> None:
    assert streamed_in_flight(plan, _message(plan)) == in_flight


def _message(plan: RunPlan, **allowed: int) -> PerformOrder:
    order = an_order(a_subject("efficientnet_lite0", "photos"), (plan,), batch_size=BATCH)
    return PerformOrder(order, MANIFESTS, allowances=Allowances(**allowed))  # type: ignore[arg-type]


@pytest.mark.parametrize(("ahead_bytes", "streams"), [(3 * _BATCH_BYTES, False), (9, True)])
def test_a_run_may_stream_where_its_batches_do_not_fit(ahead_bytes: int, streams: bool) -> None:
    for samples in ("ahead", None):
        # Three queries: as many batches.
        plan = a_run(scenario="batched", queries=3, samples=samples)
        message = _message(plan, ahead_bytes=ahead_bytes)
        assert bool(streamed_in_flight(plan, message)) == streams
