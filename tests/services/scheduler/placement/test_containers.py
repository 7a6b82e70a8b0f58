"""Requests for an image that an agent does not run in, but may start for a session."""

from typing import Any

import pytest

from schemas.agent import ContainerFacts
from schemas.manifest import FrameworkManifest
from schemas.plan import Plan
from schemas.request import Evaluate
from schemas.status import AgentStatus, Catalog
from services.scheduler.placement.candidates import Match
from services.scheduler.placement.containers import NOT_ALLOWED
from services.scheduler.placement.matching import fitting_agents, match
from services.scheduler.placement.planning import plan
from tests.services.scheduler.samples import (
    a_catalog,
    a_request,
    a_runtime,
    an_agent,
)

IMAGE = "own/ort:1"
BUILD = FrameworkManifest(
    name="onnxruntime", version="1.31.1", containers={"amd64": {"cpu": IMAGE}}
)
READY = ContainerFacts(image=IMAGE, digest="sha256:1", runtimes=(a_runtime(),))
OTHER = ContainerFacts(image="own/jax:1", runtimes=(a_runtime(framework="jax"),))
GONE = ContainerFacts(image=IMAGE, reason="is not on this machine: `docker pull own/ort:1`")


def an_owner(*containers: ContainerFacts, **changes: Any) -> AgentStatus:
    """Return an agent without a framework of its own that may start `containers`."""
    known = {"runtimes": (), "engine": "docker 28.2.2", "containers": containers}
    return an_agent(**{**known, **changes})


def asked(image: str = "manifest", **more: Any) -> Evaluate:
    """Return a request for an image."""
    return a_request(system={"image": image, **more})


def catalog_of(*agents: AgentStatus) -> Catalog:
    return a_catalog(*agents, frameworks=(BUILD,))


def matched(request: Evaluate, *agents: AgentStatus) -> Match:
    return match(request, catalog_of(*agents), {})


def planned(request: Evaluate, *agents: AgentStatus) -> Plan:
    catalog = catalog_of(*agents)
    return plan(request, match(request, catalog, {}), catalog)


@pytest.mark.parametrize("image", ["manifest", IMAGE])
def test_an_agent_starts_the_container_that_a_request_asks_for(image: str) -> None:
    subject = planned(asked(image), an_owner(OTHER, READY)).subject
    assert (subject.container, subject.framework) == (IMAGE, "onnxruntime")
    assert subject.framework_manifest == BUILD


def test_an_agent_in_the_image_needs_no_container() -> None:
    own = an_agent(image=IMAGE, engine="docker 28.2.2", containers=(READY,))
    assert planned(asked(), own).subject.container == ""


def test_without_a_need_of_an_image_nobody_starts_one() -> None:
    (reason,) = matched(a_request(), an_owner(READY)).reasons
    assert reason.reason.startswith("has no framework, wanted onnxruntime")


REFUSALS = {
    "not allowed": (an_owner(engine=""), "manifest", NOT_ALLOWED),
    "no engine": (an_owner(engine_reason="container engine docker: gone"), IMAGE, "docker: gone"),
    "missing": (an_owner(GONE), "manifest", "own/ort:1 is not on this machine: `docker pull"),
    "another": (an_owner(OTHER), IMAGE, "own/ort:1 is not of a framework manifest of the agent"),
    "framework": (an_owner(OTHER), "own/jax:1", "has jax 1.31.1, wanted onnxruntime"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_why_a_container_is_not_started_is_said(case: str) -> None:
    agent, image, reason = REFUSALS[case]
    (refusal,) = matched(asked(image), agent).reasons
    assert reason in refusal.reason


def test_agents_with_different_containers_have_builds_of_their_own() -> None:
    own = an_agent("a1", image=IMAGE)
    sessions = planned(
        asked().model_copy(update={"spread": "all"}), own, an_owner(READY, agent="a2")
    ).sessions
    containers = {each.agent: each.build.container for each in sessions if each.build}
    assert containers == {"a1": "", "a2": IMAGE}


def test_another_agent_takes_over_only_in_the_planned_container() -> None:
    request, starter, own = asked(), an_owner(READY), an_agent("a2", image=IMAGE)
    subject = planned(request, starter).subject
    fitting = fitting_agents(request, subject, catalog_of(starter, own))
    assert [candidate.agent for candidate in fitting] == ["a1"]
