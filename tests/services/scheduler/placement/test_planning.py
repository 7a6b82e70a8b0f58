"""Sessions, groups and runs of a request."""

import contextlib
from typing import Any

import pytest
from pydantic import ValidationError

from mlscope.load.stop_rule import RESULT_RULE
from schemas.manifest import DatasetManifest, ScenarioManifest, Source
from schemas.plan import Plan
from schemas.request import Blocks, Refused
from schemas.status import Catalog
from services.scheduler.errors import RequestRefused
from services.scheduler.placement.load_shapes import LoadShapes
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import plan
from tests.services.scheduler.samples import a_catalog, a_request, a_runtime, an_agent


def planned(catalog: Catalog | None = None, **wanted: Any) -> Plan:
    """Return the plan of a request."""
    catalog = catalog or a_catalog()
    request = a_request(**wanted)
    return plan(request, match(request, catalog, {}), catalog)


def runs(made: Plan) -> list[str]:
    """Return every run's id, in order."""
    return [run.run for session in made.sessions for run in session.runs]


def refusal(**wanted: Any) -> Refused:
    """Return why a request can't be planned."""
    with pytest.raises(RequestRefused) as refused:
        planned(**wanted)
    return refused.value.refused


def test_an_import_does_not_say_why_other_agents_did_not_measure_it() -> None:
    recorded = an_agent("recorded", reserved_for="import e1")
    catalog = a_catalog(an_agent("vm"), recorded, an_agent("gpu", state="lost"))
    imported = planned(catalog, agents=["recorded"], key="import e1")
    assert ([own.agent for own in imported.sessions], imported.refusals) == (["recorded"], ())
    (named, *others) = planned(catalog, agents=["vm", "gpu"]).refusals
    assert (named.agent, others) == ("gpu", [])


def test_a_level_deeper_than_model_is_measured_beside_model() -> None:
    made = planned(trace_level="framework")
    assert runs(made) == ["b1-online-model", "b1-online-framework"]
    assert {run.group for run in made.sessions[0].runs} == {0}


@pytest.mark.parametrize("level", ["none", "application", "model"])
def test_a_level_down_to_model_is_one_run(level: str) -> None:
    assert runs(planned(trace_level=level)) == [f"b1-online-{level}"]


def test_levels_that_are_named_are_run_alone() -> None:
    made = planned(trace_level="framework", levels=["framework", "none", "model"])
    assert runs(made) == ["b1-online-none", "b1-online-model", "b1-online-framework"]
    (session,) = made.sessions
    assert {run.group for run in session.runs} == {0}


@pytest.mark.parametrize(("levels", "pacing"), [(["none", "model"], "local"), (["none"], "remote")])
def test_levels_that_are_compared_take_turns(levels: list[str], pacing: str) -> None:
    made = planned(levels=levels, scenarios=["poisson"])
    assert {run.pacing for session in made.sessions for run in session.runs} == {pacing}


def test_throughput_runs_at_every_batch_size_and_latency_at_one() -> None:
    made = planned(scenarios=["online", "batched"], batch_sizes=[4, 1, 2])
    assert [(s.session, s.batch_size) for s in made.sessions] == [("b4", 4), ("b1", 1), ("b2", 2)]
    assert runs(made) == [
        "b4-batched-model",
        "b1-online-model",
        "b1-batched-model",
        "b2-batched-model",
    ]


def test_no_batch_size_that_was_asked_for_is_left_out() -> None:
    assert runs(planned(batch_sizes=[2, 4])) == ["b2-online-model", "b4-online-model"]


def test_a_scenario_named_twice_is_two_runs() -> None:
    rates = [{"name": "poisson", "parameters": {"rate_hz": rate}} for rate in (10, 20)]
    made = planned(scenarios=rates)
    assert runs(made) == ["b1-poisson-model", "b1-poisson2-model"]
    assert [run.parameters["rate_hz"] for run in made.sessions[0].runs] == [10, 20]
    assert [run.group for run in made.sessions[0].runs] == [0, 1]


@pytest.mark.parametrize(
    ("scenario", "level", "asked", "pacing"),
    [
        ("poisson", "model", "auto", "remote"),
        ("fixed_rate", "none", "auto", "remote"),
        ("poisson", "framework", "auto", "local"),
        ("online", "model", "auto", "local"),
        ("poisson", "model", "local", "local"),
        ("poisson", "model", "remote", "remote"),
    ],
)
def test_who_paces(scenario: str, level: str, asked: str, pacing: str) -> None:
    made = planned(scenarios=[scenario], trace_level=level, pacing=asked)
    assert {run.pacing for run in made.sessions[0].runs} == {pacing}


def own_rules(rule: Blocks | None, **wanted: Any) -> list[Blocks | None]:
    """Return the runs' own stop rules: of a load with 50 queries, then of one without a number."""
    counted = {"name": "poisson", "parameters": {"queries": 50}}
    made = planned(scenarios=[counted, "poisson"], blocks=rule, **wanted)
    return [run.blocks for run in made.sessions[0].runs]


def test_a_requested_number_of_remote_queries_is_obeyed_exactly() -> None:
    once = RESULT_RULE.model_copy(update={"most": 1, "budget_s": 0.0})
    assert own_rules(RESULT_RULE) == [once, None]
    thrice = RESULT_RULE.model_copy(update={"least": 3})
    assert own_rules(thrice) == [thrice.model_copy(update={"most": 3, "budget_s": 0.0}), None]
    assert own_rules(RESULT_RULE, pacing="local") == [None, None]
    assert own_rules(Blocks(least=2, most=5, interval=0.02)) == [None, None]
    assert own_rules(None) == [None, None]


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"scenarios": ["nope"]}, "scenarios.0.name"),
        (
            {"scenarios": ["online", {"name": "poisson", "parameters": {"rate_hz": 0}}]},
            "scenarios.1.parameters.rate_hz",
        ),
        (
            {"scenarios": [{"name": "online", "parameters": {"speed": 1}}]},
            "scenarios.0.parameters.speed",
        ),
        ({"pacing": "remote"}, "pacing"),
        ({"scenarios": ["poisson"], "pacing": "remote", "trace_level": "framework"}, "pacing"),
        (
            {
                "scenarios": [{"name": "fixed_rate", "parameters": {"rate_hz": 1}}],
                "run_timeout_s": 5,
            },
            "run_timeout_s",
        ),
        ({"scenarios": ["batched"] * 60, "batch_sizes": list(range(1, 61))}, "scenarios"),
    ],
)
def test_what_cannot_be_planned_is_named(wanted: dict[str, Any], field: str) -> None:
    assert refusal(**wanted).field == field


def test_an_unknown_parameter_is_refused_with_those_there_are() -> None:
    refused = refusal(scenarios=[{"name": "online", "parameters": {"speed": 1}}])
    assert refused.message == (
        "scenarios.0.parameters.speed: found 1, but there is no such parameter; "
        "known parameters: queries, sample_seed, samples"
    )
    assert (refused.found, refused.allowed) == ("1", "queries, sample_seed, samples")


def test_the_bounds_of_a_rate_are_written_as_people_do() -> None:
    refused = refusal(scenarios=[{"name": "poisson", "parameters": {"rate_hz": 0}}])
    assert refused.allowed == "a number from 0.001 to 10000000"


@pytest.mark.parametrize(
    ("wanted", "most"),
    [
        ({"scenarios": ["online"] * 64, "spread": "all", "trace_level": "framework"}, 0),
        ({"scenarios": ["online"] * 60, "batch_sizes": list(range(1, 61))}, 1),
    ],
)
def test_too_many_runs_are_refused_before_their_loads_are_made(
    wanted: dict[str, Any], most: int
) -> None:
    catalog, shapes = a_catalog(*(an_agent(f"a{number}") for number in range(9))), LoadShapes()
    request = a_request(**wanted)
    with pytest.raises(RequestRefused) as refused:
        plan(request, match(request, catalog, {}), catalog, shapes)
    assert refused.value.refused.field == "scenarios"
    assert shapes.made <= most


@pytest.mark.parametrize(("queries", "size"), [(1_000_001, 1), (20_001, 1000)])
def test_a_remote_load_is_bounded_and_a_local_one_is_not(queries: int, size: int) -> None:
    parameters = {"queries": queries, "rate_hz": 1e6}
    wanted: dict[str, Any] = {
        "scenarios": [{"name": "fixed_rate", "parameters": parameters}],
        "batch_sizes": [size],
    }
    assert refusal(**wanted).field == "scenarios.0.parameters.queries"
    assert planned(**wanted, pacing="local").sessions[0].runs[0].queries == queries


def test_the_least_blocks_of_a_remote_load_count_too() -> None:
    rate = {"queries": 400_000, "rate_hz": 1e6}
    wanted: dict[str, Any] = {"scenarios": [{"name": "fixed_rate", "parameters": rate}]}
    assert planned(**wanted, blocks=Blocks(least=2, most=2)).sessions
    refused = refusal(**wanted, blocks=Blocks(least=3, most=3))
    assert refused.allowed == "at most 333333 for a remote load; more with pacing local"


def test_the_samples_of_all_loads_are_bounded() -> None:
    queries = {"name": "online", "parameters": {"queries": 3_000_000}}
    refused = refusal(scenarios=[queries], batch_sizes=[16, 15, 14])
    assert (refused.field, refused.found) == ("scenarios", "135000000 samples")


def test_the_same_load_is_made_once() -> None:
    catalog, shapes = a_catalog(), LoadShapes()
    for queries in (5, 5, 6, True):
        parameters = {"queries": queries, "concurrency": 2}
        request = a_request(scenarios=[{"name": "batched", "parameters": parameters}])
        with contextlib.suppress(RequestRefused):
            plan(request, match(request, catalog, {}), catalog, shapes)
    assert shapes.made == 2, "of 5 and of 6 queries; True is refused"


def a_source(**said: Any) -> DatasetManifest:
    """Return a dataset that somebody holds."""
    source = Source(address="file:x.npz", reader="npz", **said)
    return DatasetManifest(name="held", source=source)


@pytest.mark.parametrize(
    ("samples", "pacing", "planned_as"),
    [(0, "local", "local"), (450, "auto", "remote"), (450, "local", "local")],
)
def test_a_source_is_planned(samples: int, pacing: str, planned_as: str) -> None:
    poisson = [{"name": "poisson", "parameters": {"queries": 7}}]
    made = planned(dataset=a_source(samples=samples), scenarios=poisson, pacing=pacing)
    assert [(run.pacing, run.queries) for run in made.sessions[0].runs] == [(planned_as, 7)]


def test_a_load_from_afar_needs_to_know_how_many_samples_there_are() -> None:
    refused = refusal(dataset=a_source(), scenarios=[{"name": "poisson"}])
    assert refused.field == "dataset.source.samples"


def test_a_request_has_a_scenario_and_not_more_than_64() -> None:
    for count in (0, 65):
        with pytest.raises(ValidationError, match="scenarios"):
            a_request(scenarios=["online"] * count)


def test_defaults_of_the_catalog_fill_in() -> None:
    scenarios = ({"name": "online", "parameters": {"queries": 7}},)
    catalog = Catalog.model_validate(a_catalog().model_dump() | {"scenarios": scenarios})
    made = planned(catalog, scenarios=["online"])
    assert made.sessions[0].runs[0].queries == 7
    assert planned(catalog).sessions[0].runs[0].queries == 5


@pytest.mark.parametrize("versions", [("9.0.0", "10.0.0"), ("10.0.0", "9.0.0")])
def test_defaults_are_those_of_the_newest_version(versions: tuple[str, str]) -> None:
    queries = {"9.0.0": 9, "10.0.0": 10}
    scenarios = tuple(
        ScenarioManifest(name="online", version=each, parameters={"queries": queries[each]})
        for each in versions
    )
    catalog = a_catalog().model_copy(update={"scenarios": scenarios})
    made = planned(catalog, scenarios=["online"])
    assert made.sessions[0].runs[0].queries == 10


def test_every_agent_of_all_has_sessions_of_its_own() -> None:
    catalog = a_catalog(an_agent("a1"), an_agent("a2", runtimes=(a_runtime(version="1.20"),)))
    made = planned(catalog, spread="all")
    assert [(s.session, s.agent) for s in made.sessions] == [("a1-b1", "a1"), ("a2-b1", "a2")]
    assert made.subject.framework_version == ""


def test_ids_stay_tokens_whatever_agents_are_called() -> None:
    catalog = a_catalog(an_agent("a" * 64), an_agent("b" * 64))
    made = planned(catalog, spread="all", scenarios=["fixed_rate"], trace_level="framework")
    assert all(len(run) <= 64 for run in runs(made))
    assert len(set(runs(made))) == 4


def test_plan_and_digest_are_the_same_every_time() -> None:
    assert planned() == planned()
    assert len(planned().subject.model_digest) == 64


def test_agents_that_the_request_leaves_out_by_name_need_no_reason() -> None:
    fleet = a_catalog(an_agent("a1"), an_agent("a2"), an_agent("a3", state="lost"))
    assert planned(fleet, agents=("a1",)).refusals == ()
    named = planned(fleet, agents=("a1", "a3")).refusals
    assert [refused.agent for refused in named] == ["a3"]
    assert [refused.agent for refused in planned(fleet).refusals] == ["a3"]


def test_a_thousand_runs_are_planned_and_no_more() -> None:
    scenarios = ["batched"] * 50
    assert len(runs(planned(scenarios=scenarios, batch_sizes=list(range(1, 21))))) == 1000
    refused = refusal(scenarios=[*scenarios, "batched"], batch_sizes=list(range(1, 21)))
    assert (refused.found, refused.allowed) == (
        "1020 runs",
        "at most 1000 runs in an evaluation",
    )


def test_openings_of_a_model_count_as_two_runs_each() -> None:
    def cold(queries: int) -> dict[str, Any]:
        return {"name": "cold", "parameters": {"queries": queries}}

    made = planned(scenarios=[cold(4), "online"], trace_level="framework")
    assert len(runs(made)) == 4 * 2 * 2 + 2
    assert [len(session.runs) for session in made.sessions] == [2, *[2] * 8]
    refused = refusal(scenarios=[cold(100)] * 6)
    assert refused.found == "1200 runs"


def test_a_cold_start_keeps_its_parameters_and_warms_up_as_told() -> None:
    parameters = {"queries": 1, "warm": 9, "samples": "ahead", "sample_seed": 3}
    made = planned(scenarios=[{"name": "cold", "parameters": parameters}], run_timeout_s=77)
    (session,) = made.sessions
    first, warm = session.runs
    assert (session.variant, session.session) == ("cold", "b1-cold0-model")
    assert (first.parameters, first.queries, first.timeout_s) == (parameters, 1, 77)
    assert warm.parameters == {"queries": 9, "samples": "ahead"}
    assert (warm.scenario, warm.queries, warm.timeout_s) == ("online", 9, 77)
    assert (first.run, warm.run) == ("b1-cold0-model-first", "b1-cold0-model-warm")


@pytest.mark.parametrize(("queries", "least"), [(1_000_000, None), (500_000, 2)])
def test_a_remote_load_may_have_a_million_queries_in_its_least_blocks(
    queries: int, least: int | None
) -> None:
    rate = {"queries": queries, "rate_hz": 1e6}
    blocks = Blocks(least=least, most=least) if least else None
    made = planned(scenarios=[{"name": "fixed_rate", "parameters": rate}], blocks=blocks)
    assert made.sessions[0].runs[0].pacing == "remote"


def test_defaults_of_a_closed_loop_can_certify_its_percentile() -> None:
    assert planned(scenarios=["online"], blocks=RESULT_RULE).notes == ()


@pytest.mark.parametrize(("scenario", "rate"), [("poisson", "18.6/s"), ("fixed_rate", "20/s")])
def test_an_open_loop_has_its_own_rate_where_no_manifest_gives_one(
    scenario: str, rate: str
) -> None:
    (note,) = planned(scenarios=[scenario], blocks=RESULT_RULE).notes
    assert f" s at {rate}; its budget is 10 s: raise its rate or budget_s" in note


def test_a_plan_notes_a_percentile_that_can_not_be_certified() -> None:
    slow = {"name": "fixed_rate", "parameters": {"rate_hz": 20}}
    (note,) = planned(scenarios=[slow, "online"], blocks=RESULT_RULE).notes
    assert note.startswith("fixed_rate, batch 1: its 99th percentile needs 662")


def test_a_recording_that_is_played_back_has_no_advice_on_its_loads() -> None:
    slow = {"name": "fixed_rate", "parameters": {"rate_hz": 20}}
    labels = {"imported": "bundle", "measured_by": "offline"}
    assert planned(scenarios=[slow], blocks=RESULT_RULE, labels=labels).notes == ()
    assert planned(scenarios=[slow], blocks=RESULT_RULE, labels={"imported": "by me"}).notes
