"""Post-processing in a process of its own: the same answers, and faults of every kind."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.batch import OutputsPredicted
from schemas.plan import Subject
from schemas.run import RunCompleted
from services.agent.link.batches import unpack_batch
from services.agent.worker.preparation.finishing import FinishFailed, FinishingProcess
from services.agent.worker.preparation.finishing_child import can_finish_apart
from services.agent.worker.preparation.pool import PreparationPool
from services.agent.worker.queries.pipeline import Pipeline, pipeline_of, steps_of
from tests.services.agent.builders import MANIFESTS, a_run
from tests.services.agent.worker.preparation.pictures import GOOD, a_pool, an_order, pictures
from tests.services.agent.worker.test_streamed import BATCH, QUERIES, opened, threads_of

STREAMED = a_run("r0", scenario="batched", queries=QUERIES, concurrency=2, samples="streamed")
LABELS = (MANIFESTS / "models/efficientnet_lite0/labels.txt").read_text().splitlines()
OUTPUTS = {"logits": np.random.default_rng(3).standard_normal((4, 1000)).astype(np.float32)}


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for manifests."""
    return tmp_path_factory.mktemp("manifests")


@pytest.fixture(scope="module")
def subject(manifests: Path) -> Subject:
    """Return a model with good pictures."""
    whole = pictures(manifests)
    dataset = whole.dataset.model_copy(update={"samples": whole.dataset.samples[: len(GOOD)]})
    return whole.model_copy(update={"dataset": dataset, "warmup": 3})


@pytest.fixture(scope="module")
def pool(subject: Subject, manifests: Path) -> Iterator[PreparationPool]:
    """Return a pool of one process."""
    with a_pool(an_order(subject, manifests, manifests / "preparation"), 1) as started:
        yield started


@pytest.fixture
def finishing(pool: PreparationPool) -> Iterator[FinishingProcess]:
    """Return a process that post-processes."""
    process = pool.finishing_process()
    yield process
    process.close()


def pipeline(subject: Subject) -> Pipeline:
    return pipeline_of(steps_of(subject.model), lambda _: tuple(LABELS))


def expected(subject: Subject) -> Any:
    (port,) = pipeline(subject).after
    value: Any = OUTPUTS[port.name]
    for step in port.steps:
        value = step.apply(value)
    return value


def test_its_answers_are_those_of_the_worker(finishing: FinishingProcess, subject: Subject) -> None:
    for _ in range(2):
        finished = finishing.finished(OUTPUTS)
        assert finished is not None
        ((name, answer),) = finished.answers
        assert (name, answer) == ("logits", expected(subject))
        assert len(finished.stamps) == 2
        assert all(began <= ended for began, ended in finished.stamps)
        assert finished.thread == finishing.pid != os.getpid()


def test_large_outputs_arrive_whole(finishing: FinishingProcess, subject: Subject) -> None:
    rows = np.tile(OUTPUTS["logits"], (2000, 1))
    finished = finishing.finished({"logits": rows})
    assert finished is not None
    assert finished.answers[0][1][:4] == finished.answers[0][1][-4:] == expected(subject)


def test_a_killed_process_costs_a_retry(finishing: FinishingProcess, subject: Subject) -> None:
    os.kill(finishing.pid, signal.SIGKILL)
    finished = finishing.finished(OUTPUTS)
    assert finished is not None
    assert finished.answers[0][1] == expected(subject)
    assert finishing.deaths == 1


def test_a_step_that_hangs_fails_its_query_alone(pool: PreparationPool, subject: Subject) -> None:
    finishing = FinishingProcess(pool._fork_finishing, pool._end_finishing, 0.2)
    os.kill(finishing.pid, signal.SIGSTOP)
    with pytest.raises(FinishFailed, match="took too long"):
        finishing.finished(OUTPUTS)
    finished = finishing.finished(OUTPUTS)
    assert finished is not None
    assert finished.answers[0][1] == expected(subject)
    finishing.close()


def test_a_step_that_raises_is_left_to_the_worker(finishing: FinishingProcess) -> None:
    assert finishing.finished({"logits": np.zeros((4, 7, 7), np.float32)}) is None
    assert finishing.finished({}) is None
    assert finishing.deaths == 0


def test_a_cancelled_run_does_not_wait(finishing: FinishingProcess) -> None:
    os.kill(finishing.pid, signal.SIGSTOP)
    threading.Timer(0.2, finishing.give_up).start()
    with pytest.raises(FinishFailed, match="given up"):
        finishing.finished(OUTPUTS)
    finishing.begin_block()
    assert finishing.finished(OUTPUTS) is not None


def test_steps_that_read_samples_stay_in_the_worker(subject: Subject) -> None:
    assert can_finish_apart(pipeline(subject))
    assert not can_finish_apart(Pipeline())


QUICK = "services.agent.worker.preparation.shares.QUICK_FINISH_NS"


def streamed(subject: Subject, manifests: Path, *, is_apart: bool) -> tuple[int, list[bytes]]:
    """Perform a streamed run; return the process that may post-process, and its batches."""
    with opened(manifests, subject, STREAMED) as (session, group, batches):
        assert session.supply.pool is not None
        session.supply.pool.start()
        finishing = session.supply.pool.finishing
        assert finishing is not None
        pid = finishing.pid
        if not is_apart:
            session.supply.pool.finishing = None
        (outcome,) = group.perform()
        finishing.close()
    assert isinstance(outcome, RunCompleted)
    assert outcome.tally.failed_queries == 0
    return pid, batches


def test_a_streamed_run_post_processes_what_takes_long_apart(
    subject: Subject, manifests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QUICK, 0)
    texts = []
    for is_apart in (True, False):
        pid, batches = streamed(subject, manifests, is_apart=is_apart)
        threads = threads_of(batches, "topk")
        assert len(threads) == QUERIES
        assert (set(threads) == {pid}) == is_apart
        facts = map(unpack_batch, batches)
        texts.append([fact.texts for fact in facts if isinstance(fact, OutputsPredicted)])
    assert texts[0] == texts[1]
    assert len(texts[0][0]) == BATCH * 2


def test_what_is_quickly_post_processed_stays_on_the_thread_that_predicts(
    subject: Subject, manifests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread would take the interpreter from it while the model is called."""
    monkeypatch.setattr(QUICK, 10**12)
    with opened(manifests, subject, STREAMED) as (session, group, batches):
        (outcome,) = group.perform()
        assert session.supply.pool is not None
        assert session.supply.pool.finishing is None
    assert isinstance(outcome, RunCompleted)
    first, *others = threads_of(batches, "topk")
    assert {*others} == {*threads_of(batches, "predict")}
    assert first not in others
