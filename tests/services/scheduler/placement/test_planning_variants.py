"""Sessions of their own: counters, what is serialised, cold starts; and levels of collectors."""

from typing import Any

import pytest

from schemas.agent import CollectorFacts
from schemas.level import Level
from schemas.manifest import FrameworkManifest
from schemas.plan import Plan, SessionPlan
from schemas.status import Catalog
from services.scheduler.errors import RequestRefused
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import plan
from tests.services.scheduler.samples import a_catalog, a_model, a_request, a_runtime, an_agent

SYSTEM = CollectorFacts(name="resource", levels=(Level.SYSTEM,))
COUNTERS = CollectorFacts(name="perf", levels=(Level.SYSTEM, Level.HARDWARE))
KERNELS = CollectorFacts(name="kineto", levels=(Level.SYSTEM,), devices=("gpu",))
PRIMITIVES = CollectorFacts(name="onednn", levels=(Level.LIBRARY,), frameworks=("pytorch",))


def a_fleet(*collectors: CollectorFacts) -> Catalog:
    return a_catalog(an_agent("a1", runtimes=(a_runtime(),), collectors=collectors))


def planned(*collectors: CollectorFacts, **wanted: Any) -> Plan:
    catalog = a_fleet(*collectors)
    request = a_request(**wanted)
    return plan(request, match(request, catalog, {}), catalog)


def told(session: SessionPlan) -> tuple[str, str, list[str]]:
    return session.session, session.variant, [run.level.name.lower() for run in session.runs]


def test_counters_that_are_named_have_a_process_of_their_own_all_the_same() -> None:
    made = planned(COUNTERS, trace_level="full", levels=["model", "system", "hardware"])
    timed, counted = made.sessions
    assert told(counted)[1:] == ("counters", ["hardware"])
    assert told(timed)[2] == ["model", "system"]


def test_levels_of_collectors_are_measured_each_on_its_own() -> None:
    (session,) = planned(SYSTEM, trace_level="full").sessions
    assert told(session) == ("b1", "", ["model", "framework", "full"])


def test_a_collector_of_another_device_or_framework_gives_nothing() -> None:
    (session,) = planned(KERNELS, PRIMITIVES, trace_level="system").sessions
    assert told(session)[2] == ["model", "system"]


def test_one_that_is_switched_off_gives_nothing() -> None:
    on = planned(SYSTEM, trace_level="full").sessions[0]
    off = planned(SYSTEM, trace_level="full", collectors={"resource": False}).sessions[0]
    assert (told(on)[2], told(off)[2]) == (["model", "framework", "full"], ["model", "full"])


@pytest.mark.parametrize("level", ["hardware", "full"])
def test_counters_are_read_in_a_session_of_their_own(level: str) -> None:
    timed, counted = planned(COUNTERS, trace_level=level).sessions
    assert told(counted) == ("b1-counters", "counters", ["hardware"])
    assert timed.variant == ""
    assert "hardware" not in told(timed)[2]


def test_without_counters_there_is_no_session_for_them() -> None:
    (session,) = planned(SYSTEM, trace_level="hardware").sessions
    assert told(session)[2] == ["model", "framework", "hardware"]


@pytest.mark.parametrize(
    ("wanted", "variants"),
    [(["counters"], ["counters"]), (["serialised", "counters"], ["serialised", "counters"])],
)
def test_kinds_that_are_named_are_planned_alone(wanted: list[str], variants: list[str]) -> None:
    made = planned(COUNTERS, trace_level="hardware", serialised=True, variants=wanted)
    assert [each.variant for each in made.sessions] == variants


@pytest.mark.parametrize(
    ("collector", "wanted", "told"),
    [
        (SYSTEM, {"trace_level": "hardware", "variants": ["counters"]}, "counters"),
        (COUNTERS, {"trace_level": "system", "variants": ["", "counters"]}, "counters"),
        (SYSTEM, {"variants": ["serialised"]}, "serialised"),
        (SYSTEM, {"serialised": True, "scenarios": ["cold"], "variants": ["serialised"]}, "cold"),
    ],
)
def test_a_kind_with_nothing_to_measure_is_refused(
    collector: CollectorFacts, wanted: dict[str, Any], told: str
) -> None:
    with pytest.raises(RequestRefused, match=f"variants: found .*{told}"):
        planned(collector, **wanted)


def test_what_is_serialised_is_apart() -> None:
    timed, serial = planned(SYSTEM, trace_level="system", serialised=True).sessions
    assert told(serial) == ("b1-serialised", "serialised", ["system"])
    assert told(timed)[2] == ["model", "framework", "system"]


@pytest.mark.parametrize(
    ("asked", "serialised"),
    [("model", "model"), ("framework", "framework"), ("full", "system"), ("hardware", "system")],
)
def test_layers_and_kernels_are_serialised_in_one_run(asked: str, serialised: str) -> None:
    sessions = planned(COUNTERS, trace_level=asked, serialised=True).sessions
    (serial,) = [each for each in sessions if each.variant == "serialised"]
    assert told(serial)[2] == [serialised]


def test_operators_side_by_side_are_serialised_unasked() -> None:
    overlapping = {"inter_threads": 2}
    deep = planned(SYSTEM, trace_level="system", options=overlapping)
    assert [each.variant for each in deep.sessions] == ["", "serialised"]
    shallow = planned(SYSTEM, trace_level="model", options=overlapping)
    assert [each.variant for each in shallow.sessions] == [""]


def of_manifests(model: dict[str, Any], framework: dict[str, Any], **wanted: Any) -> list[str]:
    """Return the variants planned where manifests bring options of the session."""
    build = FrameworkManifest(name="onnxruntime", version="1.31.1", defaults=framework)
    agent = an_agent("a1", collectors=(SYSTEM,))
    catalog = a_catalog(agent, models=(a_model(options=model),), frameworks=(build,))
    request = a_request(trace_level="system", **wanted)
    sessions = plan(request, match(request, catalog, {}), catalog).sessions
    return [each.variant for each in sessions]


def test_options_of_manifests_put_operators_side_by_side() -> None:
    assert of_manifests({"inter_threads": 2}, {}) == ["", "serialised"]
    assert of_manifests({}, {"inter_threads": 2}) == ["", "serialised"]
    assert of_manifests({"inter_threads": 1}, {"inter_threads": 2}) == [""]
    assert of_manifests({"inter_threads": 2}, {}, options={"inter_threads": 1}) == [""]


def test_every_cold_start_is_a_process_of_its_own() -> None:
    cold = {"name": "cold", "parameters": {"queries": 2, "warm": 3}}
    sessions = planned(trace_level="framework", scenarios=[cold]).sessions
    assert [each.session for each in sessions] == [
        "b1-cold0-model", "b1-cold1-model", "b1-cold0-framework", "b1-cold1-framework"
    ]  # fmt: skip
    assert {each.variant for each in sessions} == {"cold"}
    first, warm = sessions[0].runs
    assert (first.scenario, first.queries, warm.scenario, warm.queries) == ("cold", 1, "online", 3)
    assert first.group < warm.group


def test_a_cold_start_s_warm_queries_have_their_samples_as_requested() -> None:
    cold = {"name": "cold", "parameters": {"queries": 1, "samples": "streamed"}}
    first, warm = planned(trace_level="model", scenarios=[cold]).sessions[0].runs
    assert first.parameters["samples"] == warm.parameters["samples"] == "streamed"


def test_a_cold_start_lies_beside_other_scenarios() -> None:
    made = planned(scenarios=["online", "cold"]).sessions
    assert [each.variant for each in made] == ["", "cold", "cold", "cold"]
    assert len({run.run for each in made for run in each.runs}) == 7


def test_the_plan_carries_the_switches() -> None:
    switches = {"perf": {"events": "cycles"}, "markers": False}
    assert planned(collectors=switches).subject.collectors == switches
