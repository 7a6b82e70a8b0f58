"""A cold start: how the session was opened is the run's query, its first layers its layers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlscope.tracing.clock import now_ns
from mlscope.tracing.weights import LOAD
from schemas.batch import SpanKind
from schemas.level import Level
from schemas.plan import Variant, WorkOrder
from schemas.run import RunCompleted
from services.agent.collectors import Collected, CollectedSpan
from services.agent.link.messages import PerformOrder
from services.agent.link.variants import (
    opening_collector_level,
    traces_first,
    variant_environment,
    variant_subject,
)
from services.agent.predictors import WeightMove
from services.agent.worker import opening
from services.agent.worker.control import Control
from services.agent.worker.group import Group
from services.agent.worker.open_collectors import CollectorContext, OpenCollectors
from services.agent.worker.opening import SessionEnvironment, open_session_in
from services.agent.worker.session import Session
from services.agent.worker.session_opener import SessionOpener
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order
from tests.services.agent.worker.test_open_collectors import SWITCHED_OFF, Heard


def cold_order(level: str, **switches: Any) -> WorkOrder:
    subject = a_subject("tiny_cnn", "noise32", collectors={**SWITCHED_OFF, **switches})
    order = an_order(subject, (a_run(level=level, scenario="cold", queries=1),))
    cold = order.session.model_copy(update={"variant": "cold"})
    return order.model_copy(update={"session": cold})


def performed(session: Session, level: str) -> tuple[RunCompleted, Heard]:
    heard = Heard()
    order = cold_order(level)
    (outcome,) = Group(session, order, Control(), heard, lambda _: None).perform()
    assert isinstance(outcome, RunCompleted)
    return outcome, heard


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Open a model cold."""
    subject = variant_subject("cold", a_subject("tiny_cnn", "noise32"))
    place = SessionEnvironment(tmp_path, traces_first=True)
    return open_session_in(place, subject, 1, MANIFESTS, {})


def test_a_cold_start_is_opening_and_first_run(session: Session) -> None:
    outcome, heard = performed(session, "framework")
    (root,), (opening,), (first,) = (heard.rows(name) for name in ("query", "open", "predict"))
    assert root["start_ns"] == opening["start_ns"] == 0
    assert opening["duration_ns"] == session.predictor.opened.load_ns
    assert first["duration_ns"] == session.predictor.opened.first_run_ns
    assert root["duration_ns"] == first["start_ns"] + first["duration_ns"]
    assert outcome.blocks[0].median_ns == root["duration_ns"]
    assert outcome.conditions.warmup_queries == 0
    # It predicts zeros and prepares no samples.
    assert outcome.conditions.samples == ""


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
    subject = variant_subject(variant, a_subject(options={"threads": 4, "inter_threads": 4}))
    options = subject.options
    assert (subject.warmup, options["threads"]) == (warmup, threads)
    assert options["inter_threads"] == threads


def test_launches_are_waited_for_where_serialised_alone() -> None:
    assert variant_environment("serialised")["CUDA_LAUNCH_BLOCKING"] == "1"
    assert variant_environment("") == variant_environment("counters") == {}


def test_only_a_cold_session_traces_its_first_run() -> None:
    order = an_order(a_subject(), (a_run(level="framework"),))
    assert not traces_first(order.session)
    cold = order.session.model_copy(update={"variant": "cold"})
    assert traces_first(cold)


def test_what_weights_took_lies_in_the_opening(session: Session) -> None:
    first = session.predictor.opened.first
    assert first is not None
    moves = [WeightMove(LOAD, f"conv{n}", first.began_ns + n, 5, 7, 100 + n) for n in (1, 2)]
    told = replace(session.predictor.opened, first=replace(first, weights=tuple(moves)))
    session.predictor.opened = told  # type: ignore[misc]
    _, heard = performed(session, "framework")
    (opened,) = heard.rows("open")
    rows = heard.rows("weights.load conv2")
    assert [row.get("kind", SpanKind.HOST) for row in rows] == [SpanKind.HOST, SpanKind.SAMPLE]
    assert [(row["start_ns"], row["duration_ns"]) for row in rows] == [(2, 5), (2, 0)]
    assert {row["parent"] for row in rows} == {opened["span"]}
    assert len({row["span"] for row in heard.rows("")}) == len(heard.rows(""))
    assert performed(session, "model")[1].rows("weights") == []


class Seeing:
    """A collector that says from when to when it looked, and something of before."""

    name, level = "seeing", Level.SYSTEM

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended_ns = 0

    def begin(self) -> None:
        """Note when."""
        self.begun.append(now_ns())

    def end(self) -> Collected:
        """Return a span of all that was seen, and one that was over before."""
        self.ended_ns = now_ns()
        (began,) = self.begun
        names = (("seen", began, self.ended_ns - began), ("over", began - 9, 5))
        return Collected([CollectedSpan(Level.SYSTEM, *each) for each in names], dropped=2)

    def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
def seeing(monkeypatch: pytest.MonkeyPatch) -> Seeing:
    """Have a collector see openings."""
    found = Seeing()
    watch = OpenCollectors([found], frozenset({Level.SYSTEM}))
    monkeypatch.setattr(opening, "open_collectors", lambda _: watch)
    return found


def test_collectors_see_a_cold_opening_from_before_it(seeing: Seeing, tmp_path: Path) -> None:
    subject = variant_subject("cold", a_subject("tiny_cnn", "noise32"))
    occasion = CollectorContext(None, Level.SYSTEM, "cold")  # type: ignore[arg-type]
    place = SessionEnvironment(tmp_path, traces_first=True, collectors=occasion)
    session = open_session_in(place, subject, 1, MANIFESTS, {})
    first = session.predictor.opened.first
    assert first is not None
    assert seeing.begun[0] <= first.began_ns
    assert seeing.ended_ns >= first.ended_ns
    for _ in range(2):
        # A second attempt is of the same opening.
        outcome, heard = performed(session, "system")
        (seen,) = heard.rows("seen")
        assert seen["start_ns"] <= 0 <= seen["start_ns"] + seen["duration_ns"]
        assert heard.rows("over") == []
        assert (outcome.level, outcome.tally.dropped_records) == (Level.SYSTEM, 2)
    assert len(seeing.begun) == 1
    session.close()


def test_a_worker_s_cold_session_is_watched_as_deep_as_its_run(tmp_path: Path) -> None:
    for level, names in (("system", ("resource",)), ("framework", None)):
        order = cold_order(level, resource=True, markers=False, nvtx=False)
        session = SessionOpener(PerformOrder(order, MANIFESTS), tmp_path).open()
        assert (session.opening_collectors.names if session.opening_collectors else None) == names
        session.close()


def test_only_cold_runs_below_layers_are_watched() -> None:
    assert opening_collector_level(cold_order("system").session) == Level.SYSTEM
    assert opening_collector_level(cold_order("framework").session) is None
    warm = an_order(a_subject(), (a_run(level="system"),)).session
    assert opening_collector_level(warm.model_copy(update={"variant": "cold"})) is None
