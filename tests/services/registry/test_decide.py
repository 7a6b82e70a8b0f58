"""What may enter the catalog, and who is lost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlscope.load import Load
from mlscope.load.parameters import Parameters
from mlscope.load.scenarios import online
from schemas.agent import Lease
from schemas.manifest import FrameworkNeed, Manifest, Port, ScenarioManifest, Step
from schemas.publishing import WithdrawManifest
from schemas.request import (
    Refused,
)
from schemas.status import AgentStatus
from services.registry.decide import (
    bad_parameter,
    decide_back,
    decide_lost,
    decide_publish,
    decide_withdraw,
)
from services.registry.errors import ManifestRefused
from services.registry.state import RegistryState
from tests.services.registry.samples import a_model, an_announcement

SCENARIOS = sorted((Path(__file__).parents[3] / "manifests" / "scenarios").glob("*.yml"))


def refusal(known: Manifest | None, manifest: Manifest) -> Refused:
    """Return why a manifest is refused."""
    with pytest.raises(ManifestRefused) as refused:
        decide_publish(known, manifest)
    return refused.value.refused


def test_the_same_text_again_says_nothing() -> None:
    answer, fact = decide_publish(a_model(), a_model())
    assert answer.repeated
    assert fact is None


def test_another_text_under_a_known_version_conflicts() -> None:
    changed = a_model().model_copy(update={"description": "changed"})
    refused = refusal(a_model(), changed)
    assert (refused.error, refused.field) == ("conflict", "manifest.version")


def test_a_framework_that_an_agent_announces_is_spelt_right() -> None:
    model = a_model().model_copy(update={"framework": FrameworkNeed(name="onnxruntime2")})
    assert refusal(None, model).field == "manifest.framework.name"
    assert decide_publish(None, model, announced=("onnxruntime2",))[1] is not None


@pytest.mark.parametrize(
    ("parameters", "field"),
    [({"queries": "x"}, "queries"), ({"queries": 0}, "queries"), ({"rate": 3}, "rate")],
)
def test_defaults_a_scenario_cannot_use_are_refused(
    parameters: dict[str, object], field: str
) -> None:
    refused = refusal(None, ScenarioManifest(name="online", version="9", parameters=parameters))
    assert (refused.error, refused.field) == ("invalid", f"manifest.parameters.{field}")
    is_unknown = (
        "but there is no such parameter; known parameters: queries, sample_seed, samples"
        in refused.message
    )
    assert is_unknown is (field == "rate")


@pytest.mark.parametrize("name", ["online", "of-my-own"])
def test_other_defaults_of_a_scenario_are_taken(name: str) -> None:
    manifest = ScenarioManifest(name=name, version="9", parameters={"queries": 10_000_000})
    assert decide_publish(None, manifest)[1] is not None


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_shipped_scenario_is_taken(path: Path) -> None:
    manifest = ScenarioManifest.model_validate(yaml.safe_load(path.read_text()))
    assert decide_publish(None, manifest)[1] is not None


def test_a_bound_of_the_number_of_queries_is_checked() -> None:
    refused = refusal(None, ScenarioManifest(name="cold", version="9", parameters={"queries": 101}))
    assert refused.field == "manifest.parameters.queries"
    assert refused.allowed == "a whole number from 1 to 100"


def grouped(parameters: Mapping[str, Any], batch_size: int, samples: int) -> Load:
    """Return a load whose queries come in groups, as large as the load at most."""
    load = online({"queries": parameters["queries"]}, batch_size, samples)
    Parameters("grouped", parameters).integer("group", 1, 1, load.queries)
    return load


@pytest.mark.parametrize(
    ("queries", "group", "is_taken"),
    [(50, 10, True), (50, 51, False), (200_000, 150_000, True), (200_000, 200_001, False)],
)
def test_a_bound_that_depends_on_queries_is_that_of_the_defaults(
    queries: int, group: int, is_taken: bool
) -> None:
    error = bad_parameter(grouped, {"queries": queries, "group": group})
    assert (error and error.field) == (None if is_taken else "group")


def test_an_unknown_step_is_named_by_its_place() -> None:
    refused = refusal(None, a_model(operator="frobnicate"))
    assert refused.field == "manifest.inputs.0.steps.0.operator"
    assert refused.found == "frobnicate"
    assert "decode" in refused.allowed


def test_an_unknown_parameter_is_named_by_its_place() -> None:
    port = Port(type="raw", steps=(Step(operator="topk", parameters={"kk": 5}),))
    refused = refusal(None, a_model().model_copy(update={"outputs": (port,)}))
    assert refused.field == "manifest.outputs.0.steps.0.topk.kk"


def test_a_version_must_be_one() -> None:
    assert refusal(None, a_model(version="newest!")).field == "manifest.version"


def test_withdrawing_what_is_not_there_lists_what_is() -> None:
    wish = WithdrawManifest(kind="model", name="n", version="1.0.0")
    with pytest.raises(ManifestRefused) as refused:
        decide_withdraw(None, wish, ("m 1.0.0",))
    assert refused.value.refused.allowed == "m 1.0.0"


def state_of(how: str) -> RegistryState:
    """Return a catalog of one agent in a state."""
    status = AgentStatus(announcement=an_announcement("a1", "i1"), state=how)
    return RegistryState(agents={"a1": status})


def test_live_without_its_lease_is_lost() -> None:
    (lost,) = decide_lost(state_of("live"), {}, {"a1": 7})
    assert (lost.agent, lost.incarnation, lost.revision) == ("a1", "i1", 7)
    held = {"a1": Lease(holder="a1", incarnation="i1")}
    assert list(decide_lost(state_of("live"), held, {})) == []
    assert list(decide_lost(state_of("left"), {}, {})) == []


def test_lost_with_its_lease_is_back() -> None:
    held = {"a1": Lease(holder="a1", incarnation="i1")}
    assert [fact.agent for fact in decide_back(state_of("lost"), held)] == ["a1"]
    other = {"a1": Lease(holder="a1", incarnation="i2")}
    assert list(decide_back(state_of("lost"), other)) == []
