"""A GPU that is taken away in the middle of a run: its queries fail, the next run is right."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.run import RunCompleted, RunFailed
from services.agent.errors import PredictFailed
from services.agent.worker.control import Control
from services.agent.worker.device_loss import is_device_loss
from services.agent.worker.group import Group
from services.agent.worker.opening import open_session
from services.agent.worker.session import Session
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order

LOST = "CUDA error: unspecified launch failure"


class Losing:
    """A predictor whose device goes away at some call, and is back at the next but where told."""

    def __init__(self, inner: Any, at_call: int, *, for_good: bool = False) -> None:
        self._inner, self._left, self._for_good = inner, at_call, for_good

    def __getattr__(self, name: str) -> Any:
        """Be the predictor in all else."""
        return getattr(self._inner, name)

    def predict(self, inputs: Any) -> Any:
        """Return the outputs, but for one call, or all from it on. Raises PredictFailed."""
        self._left -= 1
        if self._left == 0 or (self._for_good and self._left < 0):
            raise PredictFailed(LOST)
        return self._inner.predict(inputs)


class Tracing:
    """A predictor whose captures of layers fail as they begin or as they end."""

    notes = ()

    def __init__(self, inner: Any, where: str, words: str) -> None:
        self._inner, self._where, self._words = inner, where, words

    def __getattr__(self, name: str) -> Any:
        """Be the predictor in all else."""
        return getattr(self._inner, name)

    def layers(self, _: Any) -> "Tracing":
        """Begin a capture, where it does."""
        if self._where == "begin":
            raise RuntimeError(self._words)
        return self

    def close(self) -> None:
        """Fail."""
        raise RuntimeError(self._words)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Open the identity model."""
    opened = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    yield opened
    opened.close()


def outcomes(session: Session, runs: int) -> list[Any]:
    """Return what becomes of runs, one after the other in a session."""
    order = an_order(a_subject(), tuple(a_run(level="model") for _ in range(runs)))
    return list(Group(session, order, Control(), lambda _: True, lambda _: None).perform())


def test_a_device_lost_in_predict_fails_its_query_alone(session: Session) -> None:
    losing = replace(session, predictor=Losing(session.predictor, 3))
    first, after = outcomes(losing, 1) + outcomes(losing, 1)
    assert isinstance(first, RunCompleted)
    assert isinstance(after, RunCompleted)
    assert (first.tally.failed_queries, after.tally.failed_queries) == (1, 0)


def test_a_device_lost_for_good_ends_the_runs_and_its_process(session: Session) -> None:
    losing = replace(session, predictor=Losing(session.predictor, 3, for_good=True))
    order = an_order(a_subject(), (a_run("a", level="model"), a_run("b", level="model")))
    group = Group(losing, order, Control(), lambda _: True, lambda _: None)
    ended = list(group.perform())
    failures = [outcome for outcome in ended if isinstance(outcome, RunFailed)]
    assert [(each.error, each.message) for each in failures] == [
        ("worker_died", f"the worker lost its device: {LOST}")
    ] * 2
    assert ended[0].tally.failed_queries == 3
    assert group.has_lost_device


@pytest.mark.parametrize("where", ["begin", "close"])
def test_a_device_lost_where_layers_are_captured_ends_that_run(
    session: Session, where: str
) -> None:
    tracing = replace(session, predictor=Tracing(session.predictor, where, LOST))
    order = an_order(a_subject(), (a_run("a", level="framework"), a_run("b", level="model")))
    group = Group(tracing, order, Control(), lambda _: True, lambda _: None)
    first, second = group.perform()
    assert isinstance(first, RunFailed)
    assert (first.error, first.message) == (
        "worker_died",
        f"the worker lost its device: {LOST}",
    )
    assert isinstance(second, RunCompleted)
    assert group.has_lost_device


def test_what_else_a_capture_of_layers_raises_is_its_runs_alone(session: Session) -> None:
    order = an_order(a_subject(), (a_run("a", level="framework"), a_run("b", level="model")))

    def ended(where: str) -> list[Any]:
        tracing = replace(session, predictor=Tracing(session.predictor, where, "odd\nmore"))
        return list(Group(tracing, order, Control(), lambda _: True, lambda _: None).perform())

    begun, other = ended("begin")
    assert (begun.error, begun.message) == ("predict", "predict: odd")
    read, another = ended("close")
    assert "the layers of a block could not be read: odd" in read.caveats
    assert all(isinstance(each, RunCompleted) for each in (other, read, another))


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        ("CUDA error: device-side assert triggered", True),
        ("CUDA failure 700: an illegal memory access was encountered ; GPU=0", True),
        ("INTERNAL: failed to synchronize: CUDA_ERROR_ILLEGAL_ADDRESS", True),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", False),
        ("mat1 and mat2 shapes cannot be multiplied (1x3 and 4x5)", False),
    ],
)
def test_only_errors_that_stay_are_of_a_lost_device(error: str, is_lost: bool) -> None:
    assert is_device_loss(error) == is_lost
