"""A fleet is matched as each of its agents alone, whatever parts of announcements they share."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.agent import CollectorFacts, PackageFacts
from schemas.level import Level
from schemas.manifest import FrameworkManifest
from schemas.request import Evaluate
from schemas.status import AgentStatus
from services.scheduler.placement.matching import Match, match
from services.scheduler.shared_parts import SharedParts
from tests.services.scheduler.samples import (
    GIB,
    a_catalog,
    a_gpu,
    a_machine,
    a_model,
    a_request,
    a_runtime,
    an_agent,
)

GPU = a_runtime(devices=("cpu", "gpu"))
VALUES: dict[str, tuple[Any, ...]] = {
    "hardware": (
        a_machine(),
        a_machine(architecture="arm64"),
        a_machine(accelerators=(a_gpu(vendor="nvidia"),)),
        a_machine(accelerators=(a_gpu(vendor="amd", name="MI300X"),)),
    ),
    "runtimes": ((a_runtime(),), (a_runtime(version="1.2"), GPU), ()),
    "collectors": ((), (CollectorFacts(name="k", levels=(Level.SYSTEM,), devices=("gpu",)),)),
    "packages": (None, (PackageFacts(name="timm", reason="is not installed"),)),
    "builders": (None, ("torchvision",)),
    "image": ("", "ort:arm"),
}
REQUESTS: tuple[dict[str, Any], ...] = (
    {},
    {"system": {"device": "gpu"}},
    {"system": {"device": "cuda"}},
    {"system": {"architecture": "aarch64", "memory_bytes": 4 * GIB}},
    {"system": {"image": "manifest"}},
    {"system": {"image": "ort:arm"}, "trace_level": "system"},
    {"agents": ["a1", "a2"]},
)
IMAGES = FrameworkManifest(
    name="onnxruntime", version="1.31.1", containers={"arm64": {"cpu": "ort:arm"}}
)


def fleet_of(*drawn: dict[str, Any]) -> list[AgentStatus]:
    """Return agents a0, a1, …, which share equal parts."""
    shared = SharedParts()
    return [shared.of(an_agent(f"a{number}", **fields)) for number, fields in enumerate(drawn)]


def every_kind() -> list[AgentStatus]:
    """Return an agent for each combination of `VALUES`."""
    return fleet_of(*(dict(zip(VALUES, own, strict=True)) for own in product(*VALUES.values())))


def matched(request: Evaluate, *agents: AgentStatus) -> Match:
    """Return who of some agents runs a request for a model that a builder makes."""
    built = a_model(model={"builder": "timm.models.tiny"}, options={"weights": "random"})
    return match(request, a_catalog(*agents, models=(built,), frameworks=(IMAGES,)), {})


@pytest.mark.parametrize("wanted", REQUESTS, ids=str)
def test_each_agent_has_the_verdict_that_it_has_alone(wanted: dict[str, Any]) -> None:
    fleet, request = every_kind(), a_request(spread="all", **wanted)
    together = matched(request, *fleet)
    verdicts = {own.agent: own for own in together.agents} | {
        reason.agent: reason.reason for reason in together.reasons
    }
    for status in fleet:
        name, alone = status.announcement.agent, matched(request, status)
        reasons = [reason.reason for reason in alone.reasons if reason.agent == name]
        assert verdicts[name] == next(iter((*alone.agents, *reasons)))


@settings(max_examples=40)
@given(
    st.lists(
        st.fixed_dictionaries({k: st.sampled_from(v) for k, v in VALUES.items()}),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(REQUESTS),
)
def test_who_fits_does_not_depend_on_how_many_run(
    drawn: list[dict[str, Any]], wanted: dict[str, Any]
) -> None:
    fleet = fleet_of(*drawn)
    one, every = (matched(a_request(spread=how, **wanted), *fleet) for how in ("one", "all"))
    assert one.fitting == every.fitting == every.agents
    assert one.agents == every.agents[:1]
