"""A cold start: how the session was opened is the run's query, its first layers its layers."""

from pathlib import Path

import pytest

from schemas.level import Level
from schemas.plan import Variant
from schemas.run import RunCompleted
from services.agent.control import Control
from services.agent.group import Group
from services.agent.session import Place, Session, open_in
from services.agent.variants import environment_of, subject_as, traces_first
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order
from tests.services.agent.test_collecting import SWITCHED_OFF, Heard


def performed(session: Session, level: str) -> tuple[RunCompleted, Heard]:
    heard = Heard()
    subject = a_subject("tiny_cnn", "noise32", collectors=SWITCHED_OFF)
    order = an_order(subject, (a_run(level=level, scenario="cold", queries=1),))
    order = order.model_copy(
        update={"session": order.session.model_copy(update={"variant": "cold"})}
    )
    (outcome,) = Group(session, order, Control(), heard, lambda _: None).perform()
    assert isinstance(outcome, RunCompleted)
    return outcome, heard


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Open a model cold."""
    subject = subject_as("cold", a_subject("tiny_cnn", "noise32"))
    place = Place(tmp_path, traces_first=True)
    return open_in(place, subject, 1, MANIFESTS, {})


def test_a_cold_start_is_opening_and_first_run(session: Session) -> None:
    outcome, heard = performed(session, "framework")
    (root,), (opening,), (first,) = (heard.rows(name) for name in ("query", "open", "predict"))
    assert root["start_ns"] == opening["start_ns"] == 0
    assert opening["duration_ns"] == session.predictor.opened.load_ns
    assert first["duration_ns"] == session.predictor.opened.first_run_ns
    assert root["duration_ns"] == first["start_ns"] + first["duration_ns"]
    assert outcome.blocks[0].median_ns == root["duration_ns"]
    assert outcome.conditions.warmup_queries == 0


def test_the_layers_of_the_very_first_run_are_there(session: Session) -> None:
    _, heard = performed(session, "framework")
    (first,) = heard.rows("predict")
    layers = [row for row in heard.rows("") if row["level"] == Level.FRAMEWORK]
    assert len(layers) == 8
    assert {row["parent"] for row in layers} == {first["span"]}
    ends = [row["start_ns"] + row["duration_ns"] for row in layers]
    assert max(ends) <= first["start_ns"] + first["duration_ns"] + 1_000


def test_a_cold_start_at_level_model_has_no_layers(session: Session) -> None:
    _, heard = performed(session, "model")
    assert [row["level"] for row in heard.rows("")] == [1, 2, 2]


@pytest.mark.parametrize(
    ("variant", "warmup", "threads"), [("", 1, 4), ("cold", 0, 4), ("serialised", 1, 1)]
)
def test_a_variant_opens_its_own_way(variant: Variant, warmup: int, threads: int) -> None:
    subject = subject_as(variant, a_subject(options={"threads": 4, "inter_threads": 4}))
    options = subject.options
    assert (subject.warmup, options["threads"]) == (warmup, threads)
    assert options["inter_threads"] == threads


def test_launches_are_waited_for_where_serialised_alone() -> None:
    assert environment_of("serialised")["CUDA_LAUNCH_BLOCKING"] == "1"
    assert environment_of("") == environment_of("counters") == {}


def test_only_a_cold_session_traces_its_first_run() -> None:
    order = an_order(a_subject(), (a_run(level="framework"),))
    assert not traces_first(order.session)
    cold = order.session.model_copy(update={"variant": "cold"})
    assert traces_first(cold)
