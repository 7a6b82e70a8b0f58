"""A GPU that is taken away in the middle of a run: its queries fail, the next run is right."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.run import RunCompleted
from services.agent.control import Control
from services.agent.errors import PredictFailed
from services.agent.group import Group
from services.agent.session import Session, open_session
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order

LOST = "CUDA error: unspecified launch failure"


class Losing:
    """A predictor whose device goes away at some call and is back at the next run."""

    def __init__(self, inner: Any, at_call: int) -> None:
        self._inner, self._left = inner, at_call

    def __getattr__(self, name: str) -> Any:
        """Be the predictor in all else."""
        return getattr(self._inner, name)

    def predict(self, inputs: Any) -> Any:
        """Return the outputs, but for one call. Raises PredictFailed."""
        self._left -= 1
        if self._left == 0:
            raise PredictFailed(LOST)
        return self._inner.predict(inputs)


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
