"""A fleet is matched as each of its agents alone, whatever parts of announcements they share."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.agent import CollectorFacts, ContainerFacts, HostFacts, PackageFacts
from schemas.level import Level
from schemas.manifest import FrameworkManifest, ModelManifest
from schemas.request import Evaluate
from schemas.status import AgentStatus
from services.scheduler.placement.candidates import Candidate, Match
from services.scheduler.placement.matching import match
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
from tests.thoroughness import examples

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
DOWN = HostFacts(name="weights.example", reason="refused")
READY = ContainerFacts(image="ort:arm", runtimes=(a_runtime(),))
LACKING = ContainerFacts(
    image="ort:arm",
    runtimes=(a_runtime(),),
    packages=(PackageFacts(name="timm", reason="is not in the image"),),
)
OWNERS_VALUES: dict[str, tuple[Any, ...]] = {
    "models": (None, ("0" * 12,)),
    "allows_inline_python": (False, True),
    "hub": (
        (None, ""),
        (True, ""),
        (False, ""),
        (False, "is off"),
        (False, "https://hub: refused"),
    ),
    "hosts": (None, (HostFacts(name="weights.example"),), (DOWN,)),
    "containers": (("", ()), ("docker 28", (READY,)), ("docker 28", (LACKING,))),
}
"""What owners allow, and what depends on it."""
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


def owners() -> list[AgentStatus]:
    """Return an agent for each combination of `OWNERS_VALUES`."""
    return fleet_of(
        *(
            {
                "models": models,
                "allows_inline_python": allows_inline,
                "has_hub": has_hub,
                "hub_reason": hub_reason,
                "hosts": hosts,
                "engine": engine,
                "containers": containers,
            }
            for models, allows_inline, (has_hub, hub_reason), hosts, (
                engine,
                containers,
            ) in product(*OWNERS_VALUES.values())
        )
    )


BUILT = a_model(model={"builder": "timm.models.tiny"}, options={"weights": "random"})
OF_HUB = a_model(
    model={"builder": "timm.tiny", "base_url": "hf://timm/net@main/", "weights_path": "w.bin"}
)
OF_WEB = a_model(
    model={"builder": "timm.tiny", "base_url": "https://weights.example/", "weights_path": "w.bin"}
)
WITH_CODE = a_model(preprocess="def preprocess(context, data):\n    return data\n")


def matched(request: Evaluate, *agents: AgentStatus, model: ModelManifest = BUILT) -> Match:
    """Return who of some agents runs a request for a model, by default one that a builder makes."""
    return match(request, a_catalog(*agents, models=(model,), frameworks=(IMAGES,)), {})


def verdicts_of(found: Match) -> dict[str, Candidate | str]:
    """Return by agent what it would run, or why it cannot."""
    return {own.agent: own for own in found.agents} | {
        reason.agent: reason.reason for reason in found.reasons
    }


@pytest.mark.parametrize("request_fields", REQUESTS, ids=str)
def test_each_agent_has_the_verdict_that_it_has_alone(request_fields: dict[str, Any]) -> None:
    fleet, request = every_kind(), a_request(spread="all", **request_fields)
    together = verdicts_of(matched(request, *fleet))
    for status in fleet:
        name = status.announcement.agent
        assert together[name] == verdicts_of(matched(request, status))[name]


@pytest.mark.parametrize("model", [OF_HUB, OF_WEB, WITH_CODE], ids=["hub", "web", "code"])
@pytest.mark.parametrize("system", [{}, {"image": "ort:arm"}], ids=str)
def test_what_an_owner_allows_is_decided_for_each_owner(
    model: ModelManifest, system: dict[str, Any]
) -> None:
    options = {"weights": "unverified"} if model is not WITH_CODE else {}
    request = a_request(spread="all", system=system, options=options)
    fleet = owners()
    together = verdicts_of(matched(request, *fleet, model=model))
    assert len({verdict for verdict in together.values() if isinstance(verdict, str)}) > 2
    for status in fleet:
        name = status.announcement.agent
        assert together[name] == verdicts_of(matched(request, status, model=model))[name]


@settings(max_examples=examples(40))
@given(
    st.lists(
        st.fixed_dictionaries({k: st.sampled_from(v) for k, v in VALUES.items()}),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(REQUESTS),
)
def test_who_fits_does_not_depend_on_how_many_run(
    drawn: list[dict[str, Any]], request_fields: dict[str, Any]
) -> None:
    fleet = fleet_of(*drawn)
    one, every = (
        matched(a_request(spread=how, **request_fields), *fleet) for how in ("one", "all")
    )
    assert one.fitting == every.fitting == every.agents
    assert one.agents == every.agents[:1]
