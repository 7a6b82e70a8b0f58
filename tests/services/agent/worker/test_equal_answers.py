"""Whoever prepares the samples, and whenever: the model gets the same bytes and gives the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from mlscope.tracing.batches import columns_of
from schemas.batch import Batch, OutputsPredicted, QueriesAnswered
from schemas.plan import Subject
from schemas.run import RunCompleted
from services.agent.link.batches import unpack_batch
from services.agent.predictors import Tensors
from services.agent.worker.preparation import session_pool
from services.agent.worker.session import Session
from tests.services.agent.builders import a_run
from tests.services.agent.worker.preparation.pictures import BROKEN, pictures
from tests.services.agent.worker.test_streamed import BATCH, opened

QUERIES, SEVERAL = 8, 3
SAMPLES = BROKEN + 1
"""Six good pictures and a broken one."""


@dataclass(frozen=True)
class Mode:
    """A way to prepare samples, and in how many processes of their own."""

    samples: str
    processes: int = 0
    #: `online` has one query in flight, whose samples are prepared inline
    scenario: str = "batched"


MODES: Mapping[str, Mode] = {
    "inline": Mode("streamed", scenario="online"),
    "threads": Mode("streamed"),
    "one process": Mode("streamed", 1),
    "several processes": Mode("streamed", SEVERAL),
    "ahead": Mode("ahead"),
    "ahead, one in flight": Mode("ahead", scenario="online"),
}


class Watched:
    """A model whose inputs and outputs are kept, as bytes of each sample of each call."""

    def __init__(self, session: Session) -> None:
        """Take the place of a session's model."""
        self._predict, self.opened = session.predictor.predict, session.predictor.opened
        self.calls: list[list[tuple[bytes, bytes]]] = []

    def predict(self, inputs: Tensors) -> Tensors:
        """Predict, and keep both sides."""
        outputs = self._predict(inputs)
        (given,), (answer,) = inputs.values(), outputs.values()
        pairs = zip(given, answer, strict=True)
        self.calls.append([(row.tobytes(), result.tobytes()) for row, result in pairs])
        return outputs

    def close(self) -> None:
        """Close nothing."""


@dataclass(frozen=True)
class Answers:
    """What a run gave and was given."""

    #: of each good sample of each query in the clock: its bytes, and those of the model's output
    predicted: list[tuple[bytes, bytes]]
    #: of each sample: the answer that is kept
    texts: Mapping[int, bytes]
    #: how many samples of each query failed
    failed: list[int]


def answers_of(calls: list[list[tuple[bytes, bytes]]], facts: list[Batch]) -> Answers:
    """Return what was predicted in the last `calls`, and the `facts` that a run handed over."""
    predicted = [
        pair
        for query, call in enumerate(calls[-QUERIES:])
        for position, pair in enumerate(call)
        if (query * BATCH + position) % SAMPLES != BROKEN
    ]
    texts: dict[int, bytes] = {}
    failed: dict[int, int] = {}
    for fact in facts:
        columns = columns_of(fact)
        if isinstance(fact, OutputsPredicted):
            texts.update(zip(columns["sample"].tolist(), fact.texts, strict=True))
        elif isinstance(fact, QueriesAnswered):
            failed.update(
                zip(columns["query"].tolist(), columns["failed"].clip(min=0), strict=True)
            )
    return Answers(predicted, texts, [int(failed[query]) for query in range(QUERIES)])


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty folder for manifests."""
    return tmp_path_factory.mktemp("manifests")


@pytest.fixture(scope="module")
def subject(manifests: Path) -> Subject:
    """Return a model with pictures."""
    pictured = pictures(manifests)
    samples = pictured.dataset.samples[:SAMPLES]
    dataset = pictured.dataset.model_copy(update={"samples": samples})
    return pictured.model_copy(update={"dataset": dataset, "outputs": SAMPLES})


def performed(subject: Subject, manifests: Path, mode: Mode) -> Answers:
    """Do a run in a mode; return its answers."""
    run = a_run(scenario=mode.scenario, queries=QUERIES, samples=mode.samples)
    session_of = partial(opened, manifests, subject, run, processes=mode.processes, model=Watched)
    with session_of() as (session, group, batches):
        (outcome,) = group.perform()
    assert isinstance(outcome, RunCompleted), outcome
    assert outcome.conditions.samples == mode.samples
    assert outcome.conditions.prepare_processes == mode.processes
    assert isinstance(session.predictor, Watched)
    return answers_of(session.predictor.calls, list(map(unpack_batch, batches)))


@pytest.fixture(scope="module")
def inline(subject: Subject, manifests: Path) -> Answers:
    """Return the answers of the simplest mode."""
    return performed(subject, manifests, MODES["inline"])


@pytest.mark.parametrize("name", [name for name in MODES if name != "inline"])
def test_every_mode_gives_equal_answers(
    name: str, inline: Answers, subject: Subject, manifests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.agent.worker.opening.usable_cores", lambda: 8)
    monkeypatch.setattr(session_pool, "needed_processes", lambda *_: MODES[name].processes)
    assert performed(subject, manifests, MODES[name]) == inline


def test_what_is_compared_is_not_empty(inline: Answers) -> None:
    assert sum(inline.failed) == QUERIES * BATCH // SAMPLES
    assert len(inline.predicted) == QUERIES * BATCH - sum(inline.failed)
    assert set(inline.texts) == set(range(SAMPLES)) - {BROKEN}
