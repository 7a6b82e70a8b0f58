"""The cores that the thread which calls the model is kept on: the same in every kind of run."""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from schemas.plan import RunPlan
from schemas.run import RunCompleted
from services.agent.machine.cores import ANYWHERE, LEAST_CORES
from services.agent.predictors import Opened, Tensors
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.opening import open_session
from services.agent.worker.preparation import predicting
from services.agent.worker.preparation.predicting import Predicting
from services.agent.worker.session import Session
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order

USABLE = frozenset(os.sched_getaffinity(0))
CORE = frozenset({min(USABLE)})
OPENED = Opened("net", "1", (), (), "gpu", "", "", 3, {})


class Begun:
    """A call whose outputs are there."""

    def __init__(self, outputs: Tensors) -> None:
        self.outputs = outputs

    def wait(self) -> Tensors:
        """Return them."""
        return self.outputs


class Watched:
    """A predictor that notes on which cores its caller may be; its calls overlap."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.opened = inner, inner.opened
        self.seen: list[frozenset[int]] = []

    def predict(self, inputs: Tensors) -> Tensors:
        """Note the caller's cores; return the outputs."""
        self.seen.append(frozenset(os.sched_getaffinity(0)))
        outputs: Tensors = self.inner.predict(inputs)
        return outputs

    def begin(self, inputs: Tensors) -> Begun:
        """Begin a call, which is over at once."""
        return Begun(self.predict(inputs))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a model whose samples take steps."""
    subject = a_subject("tiny_cnn", "noise32")
    opened = open_session(subject, 1, MANIFESTS, tmp_path_factory.mktemp("scratch"))
    yield opened
    opened.close()


def timed_on(
    session: Session, run: RunPlan, cores: frozenset[int]
) -> tuple[frozenset[int], RunCompleted]:
    """Return the cores of a run's last call, and how the run ended."""
    watched: Any = Watched(session.predictor)
    supply = replace(session.supply, predicting_cores=cores)
    pinned = replace(session, predictor=watched, supply=supply)
    order = an_order(runs=(run,))
    (outcome,) = Group(pinned, order, Control(), lambda _: True, lambda _: None).perform()
    assert isinstance(outcome, RunCompleted)
    return watched.seen[-1], outcome


@pytest.mark.parametrize("samples", ["ahead", "streamed"])
@pytest.mark.parametrize("scenario", ["online", "batched", "fixed_rate"])
@pytest.mark.parametrize("cores", [CORE, ANYWHERE], ids=["kept", "free"])
def test_every_run_calls_the_model_from_the_same_cores(
    session: Session, scenario: str, samples: str, cores: frozenset[int]
) -> None:
    run = a_run("r0", scenario=scenario, samples=samples)
    seen, outcome = timed_on(session, run, cores)
    assert seen == (cores or USABLE)
    assert outcome.conditions.predict_cores == ",".join(map(str, sorted(cores)))
    assert frozenset(os.sched_getaffinity(0)) == USABLE


@pytest.mark.parametrize(
    ("device", "busy", "place"),
    [
        ("gpu", LEAST_CORES, Predicting(0, CORE)),
        # Its driver may have threads of its own: nobody measured one.
        ("fpga", LEAST_CORES, Predicting(0)),
        # A container that may keep two cores busy.
        ("gpu", 2, Predicting(0)),
        ("cpu", LEAST_CORES, Predicting(3)),
    ],
)
def test_a_gpu_alone_is_fed_from_a_core_of_its_own(
    monkeypatch: pytest.MonkeyPatch, device: str, busy: int, place: Predicting
) -> None:
    def aside(usable: frozenset[int], count: int) -> frozenset[int]:
        return CORE if min(len(usable), count) >= LEAST_CORES else ANYWHERE

    monkeypatch.setattr(predicting, "cores_set_aside", aside)
    monkeypatch.setattr(predicting, "usable_cores", lambda: busy)
    monkeypatch.setattr(predicting, "usable_core_numbers", lambda: frozenset(range(16)))
    assert Predicting.of(replace(OPENED, device=device)) == place


def test_a_core_that_the_kernel_refuses_is_not_in_the_conditions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = frozenset({max(USABLE) + 500})
    monkeypatch.setattr(predicting, "cores_set_aside", lambda *_: absent)
    assert Predicting.of(replace(OPENED, device="gpu")) == Predicting(0, ANYWHERE)
