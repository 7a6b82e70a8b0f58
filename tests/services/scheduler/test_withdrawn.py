"""Manifests withdrawn or published anew under a planned evaluation, which keeps those it had."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from schemas.evaluation import EvaluationRequested
from schemas.manifest import FrameworkManifest, HardwareManifest, SoftwareManifest
from services.scheduler.placement.fleet import Fleet
from tests.services.scheduler.samples import GIB, a_machine, a_request, an_agent
from tests.services.scheduler.stories import E, Story, completed_fact, stored_fact

IMAGE = "own/ort:1"
BOX = HardwareManifest(name="box", memory_bytes=16 * GIB)
STACK = SoftwareManifest(name="stack", container=IMAGE)
BUILD = FrameworkManifest(
    name="onnxruntime", version="1.31.1", containers={"amd64": {"cpu": IMAGE}}
)
NOW: dict[str, Any] = {"hardware": (BOX,), "software": (STACK,), "frameworks": (BUILD,)}
WITHDRAWN: dict[str, Any] = dict.fromkeys(NOW, ())
ANEW: dict[str, Any] = {
    "hardware": (BOX.model_copy(update={"memory_bytes": 64 * GIB}),),
    "software": (STACK.model_copy(update={"container": "own/ort:2"}),),
    "frameworks": (BUILD.model_copy(update={"containers": {"amd64": {"cpu": "own/ort:2"}}}),),
}
LAX: dict[str, Any] = {
    "hardware": (BOX.model_copy(update={"memory_bytes": 0}),),
    "software": (STACK.model_copy(update={"container": ""}),),
    "frameworks": (BUILD.model_copy(update={"containers": {"amd64": {"cpu": "own/ort:0"}}}),),
}
SYSTEMS = [{"hardware": "box"}, {"software": "stack:>=1"}, {"image": "manifest"}]


@dataclass
class Published(Story):
    """A story whose catalog has manifests of systems."""

    manifests: dict[str, Any] = field(default_factory=lambda: NOW)

    def fleet(self) -> Fleet:
        """Return the agents and manifests as they are now."""
        known = super().fleet()
        return replace(known, catalog=known.catalog.model_copy(update=self.manifests))


def begun(system: dict[str, str]) -> Published:
    """Return an evaluation of two groups whose first is under way on an agent that fits."""
    story = Published(random.Random(1))
    story.agents["a1"] = an_agent("a1", image=IMAGE, hardware=a_machine(memory_bytes=32 * GIB))
    request = a_request(scenarios=["online", "batched"], system=system)
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    story.settle()
    return story


def started(story: Published) -> list[tuple[str, int]]:
    """Return the agent and attempt of each run."""
    return [(run.agent, run.attempt) for run in story.state.runs.values() if run.is_under_way]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("later", [WITHDRAWN, ANEW], ids=["withdrawn", "anew"])
def test_the_next_group_starts_all_the_same(system: dict[str, str], later: dict[str, Any]) -> None:
    story = begun(system)
    first, second = story.state.runs.values()
    story.manifests = later
    story.say(completed_fact(first, 1, story.dice))
    story.say(stored_fact(first, 1, story.dice))
    story.settle()
    assert story.state.runs[second.plan.run].is_under_way
    assert started(story) == [("a1", 1)]


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_agent_that_only_fits_what_came_later_stands_in_for_nobody(
    system: dict[str, str],
) -> None:
    story = begun(system)
    assert started(story) == [("a1", 1)]
    story.manifests = LAX
    story.agents["a2"] = an_agent("a2", image="own/ort:0")
    story.agents["a1"] = story.agents["a1"].model_copy(update={"state": "lost"})
    story.settle()
    assert started(story) == []
    story.agents["a1"] = story.agents["a1"].model_copy(update={"state": "live"})
    story.settle()
    assert started(story) == [("a1", 2)]
