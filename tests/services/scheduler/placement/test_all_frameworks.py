"""A request for all agents: each runs the model once, on the first of its frameworks it has."""

from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from mlscope.manifests.digests import digest_of
from schemas.manifest import ModelManifest, Port
from schemas.plan import Plan
from schemas.request import Evaluate
from schemas.status import Catalog
from services.scheduler.placement.fleet import Fleet
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import plan
from services.scheduler.placement.preview import preview
from tests.services.scheduler.samples import (
    FRAMEWORKS,
    a_catalog,
    a_model,
    a_model_of,
    a_request,
    agents_of,
)
from tests.thoroughness import examples

MODEL = a_model_of(*FRAMEWORKS)
CATALOG = a_catalog(
    *agents_of(b=["litert", "openvino"], c=["onnxruntime"], a=["litert"], d=["pytorch"]),
    models=(MODEL,),
)
ALL = a_request(spread="all")

_SOME = settings(max_examples=examples(50), deadline=None)
Fleets = st.dictionaries(
    st.sampled_from("abcdef"),
    st.lists(st.sampled_from((*FRAMEWORKS, "pytorch")), unique=True),
    min_size=1,
)


def planned(request: Evaluate = ALL, catalog: Catalog = CATALOG) -> Plan:
    """Return the plan of a request."""
    return plan(request, match(request, catalog, {}), catalog)


@given(
    Fleets,
    st.permutations(FRAMEWORKS),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9)),
)
@_SOME
def test_each_agent_runs_once_on_the_first_framework_that_it_has(
    fleet: Mapping[str, Sequence[str]], order: Sequence[str], loads: Mapping[str, int]
) -> None:
    catalog = a_catalog(*agents_of(**fleet), models=(a_model_of(*order),))
    matched = match(ALL, catalog, loads)
    expected = {
        agent: next(name for name in order if name in own)
        for agent, own in fleet.items()
        if set(own) & set(order)
    }
    assert len(matched.agents) == len(expected)
    assert {own.agent: own.framework for own in matched.agents} == expected
    assert {own.agent: own.model.framework.name for own in matched.agents} == expected
    assert {reason.agent for reason in matched.reasons} == fleet.keys() - expected.keys()


@given(Fleets, st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9)))
@_SOME
def test_a_model_of_one_framework_runs_on_all_agents_that_fit(
    fleet: Mapping[str, Sequence[str]], loads: Mapping[str, int]
) -> None:
    catalog = a_catalog(*agents_of(**fleet))
    single, every = (match(a_request(spread=spread), catalog, loads) for spread in ("one", "all"))
    assert every.agents == every.fitting == single.fitting
    assert (every.model, every.dataset, every.reasons) == (
        single.model,
        single.dataset,
        single.reasons,
    )


def test_one_agent_is_chosen_as_before() -> None:
    (chosen,) = match(a_request(), CATALOG, {"c": 9}).agents
    assert (chosen.agent, chosen.framework) == ("c", "onnxruntime")


def test_the_framework_that_a_request_names_is_the_only_one() -> None:
    matched = match(a_request(spread="all", framework="litert"), CATALOG, {})
    assert [(own.agent, own.framework) for own in matched.agents] == [
        ("a", "litert"),
        ("b", "litert"),
    ]


def test_a_preview_names_the_framework_of_each_agent() -> None:
    shown = preview(ALL, Fleet(catalog=CATALOG), 0)
    assert [(own.agent, own.framework, own.chosen) for own in shown.agents] == [
        ("c", "onnxruntime", True),
        ("b", "openvino", True),
        ("a", "litert", True),
    ]
    assert ([reason.agent for reason in shown.reasons], shown.sessions, shown.runs) == (["d"], 3, 3)


def test_each_session_has_its_agents_framework_and_variant() -> None:
    own_plan = planned()
    subjects = [own_plan.subject_of(session.session) for session in own_plan.sessions]
    assert [
        (own.framework, own.model.framework.name, own.options, own.manifest) for own in subjects
    ] == [(name, name, {"is_for": name}, None) for name in FRAMEWORKS]
    assert {own.model_digest for own in subjects} == {digest_of(MODEL)}
    assert Plan.model_validate_json(own_plan.model_dump_json()) == own_plan


def test_runs_are_named_after_their_agents_and_frameworks() -> None:
    assert [run.run for session in planned().sessions for run in session.runs] == [
        "c-onnxruntime-b1-online-model",
        "b-openvino-b1-online-model",
        "a-litert-b1-online-model",
    ]


def test_a_plan_keeps_the_whole_manifest_only_for_several_frameworks() -> None:
    assert planned().subject.manifest == MODEL
    alone = planned(a_request(spread="all", framework="litert"))
    assert (alone.subject.manifest, alone.subject.framework) == (None, "litert")
    assert {session.build for session in alone.sessions} == {None}


def test_a_plan_without_frameworks_in_its_builds_has_the_subjects() -> None:
    fields = planned().model_dump(mode="json")
    for session in fields["sessions"]:
        session["build"] = {"framework_version": "1.0", "device": "gpu"}
    old = Plan.model_validate(fields)
    own = old.subject_of(old.sessions[1].session)
    assert (own.framework, own.framework_version) == ("onnxruntime", "1.0")
    assert own.model == old.subject.model


def test_agents_whose_samples_would_have_another_shape_are_refused() -> None:
    port = Port(type="raw", layer_name="x", shape=(-1, 3, 8, 9))
    variants = [{"name": "onnxruntime"}, {"name": "litert", "layouts": {"x": "NHWC"}}]
    model = a_model(dataset="", inputs=(port,)).model_dump(exclude={"framework", "model"})
    manifest = ModelManifest.model_validate(model | {"frameworks": variants})
    catalog = CATALOG.model_copy(update={"models": (manifest,), "datasets": ()})
    matched = match(ALL, catalog, {})
    assert [own.agent for own in matched.agents] == ["c"]
    reasons = {reason.agent: reason.reason for reason in matched.reasons}
    assert "litert takes samples of another shape than onnxruntime" in reasons["a"]
