"""Runs on every agent: each run belongs to its agent, and to no other."""

import random
from dataclasses import dataclass, replace
from typing import Any

from mlscope.evaluation.status import status_of
from schemas.evaluation import EvaluationMeasured, EvaluationRequested, RunStarted
from schemas.manifest import FrameworkManifest
from services.scheduler.evaluation.attempts import S_NS
from services.scheduler.evaluation.effects import Start, effects, order_of
from services.scheduler.placement.fleet import Fleet
from tests.services.scheduler.samples import (
    FRAMEWORKS,
    a_model_of,
    a_request,
    a_runtime,
    agents_of,
    an_agent,
)
from tests.services.scheduler.stories import E, Story, completed_fact, stored_fact


def test_a_lost_agent_s_runs_end_with_the_cause_and_go_to_no_other() -> None:
    story = Story(random.Random(1))
    story.agents |= {name: an_agent(name) for name in ("a1", "a2")}
    request = a_request(spread="all")
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    story.settle()
    own, others = sorted(story.state.runs.values(), key=lambda run: run.agent)
    story.agents["a2"] = an_agent("a2", state="lost")
    story.say(completed_fact(own, own.attempt, story.dice))
    story.say(stored_fact(own, own.attempt, story.dice))
    story.settle()
    story.now_ns += 10 * S_NS
    story.settle()
    started = [each.fact for each in story.log if isinstance(each.fact, RunStarted)]
    assert sorted(fact.agent for fact in started) == ["a1", "a2"]
    (measured,) = [each.fact for each in story.log if isinstance(each.fact, EvaluationMeasured)]
    ends = {run.run: (run.end, run.cause) for run in measured.runs}
    assert ends[own.plan.run] == ("completed", "")
    assert ends[others.plan.run] == (
        "failed",
        "agent a2 was lost; no other agent may do the runs of this one",
    )


OLD, NEW = (
    FrameworkManifest(
        name="onnxruntime",
        version=version,
        containers={"amd64": {"cpu": f"own/ort:{version}"}},
        defaults={"threads": threads},
    )
    for version, threads in (("1.30.0", 4), ("1.31.1", 2))
)


@dataclass
class Published(Story):
    """A story whose catalog has manifests of frameworks."""

    frameworks: tuple[FrameworkManifest, ...] = (OLD, NEW)

    def fleet(self) -> Fleet:
        """Return the agents and manifests as they are now."""
        known = super().fleet()
        changed = known.catalog.model_copy(update={"frameworks": self.frameworks})
        return replace(known, catalog=changed)


def on_two_builds(*versions: str, **wanted: Any) -> Published:
    """Return an evaluation spread over agents that have these versions of the framework."""
    story = Published(random.Random(1))
    for number, version in enumerate(versions, 1):
        story.agents[f"a{number}"] = an_agent(
            f"a{number}",
            runtimes=(a_runtime(version=version),),
            image=f"own/ort:{version}",
        )
    request = a_request(spread="all", **wanted)
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    story.settle()
    return story


def orders(story: Published) -> dict[str, tuple[str, Any, FrameworkManifest | None]]:
    """Return what each agent is told of its framework: version, threads, manifest."""
    starts = [each for each in effects(story.state, story.fleet()) if isinstance(each, Start)]
    subjects = {each.agent: order_of(story.state, each).subject for each in starts}
    return {
        agent: (told.framework_version, told.options.get("threads"), told.framework_manifest)
        for agent, told in subjects.items()
    }


def test_every_agent_of_all_has_its_own_build_of_the_framework() -> None:
    story = on_two_builds("1.31.1", "1.30.0")
    assert orders(story) == {"a1": ("1.31.1", 2, NEW), "a2": ("1.30.0", 4, OLD)}


def test_a_request_overrules_the_options_of_every_build() -> None:
    story = on_two_builds("1.31.1", "1.30.0", options={"threads": 7})
    assert {agent: told[1] for agent, told in orders(story).items()} == {"a1": 7, "a2": 7}


def test_agents_of_one_build_have_it_from_the_subject() -> None:
    story = on_two_builds("1.31.1", "1.31.1")
    assert orders(story) == {"a1": ("1.31.1", 2, NEW), "a2": ("1.31.1", 2, NEW)}
    assert story.state.plan is not None
    assert [each.build for each in story.state.plan.sessions] == [None, None]


def test_each_agent_of_all_goes_on_with_the_build_it_was_planned_with() -> None:
    story = on_two_builds(
        "1.31.1", "1.30.0", scenarios=["online", "batched"], system={"image": "manifest"}
    )
    elsewhere = {"containers": {"amd64": {"cpu": "far/ort"}}}
    story.frameworks = (OLD.model_copy(update=elsewhere), NEW.model_copy(update=elsewhere))
    for run in [each for each in story.state.runs.values() if each.is_under_way]:
        story.say(completed_fact(run, 1, story.dice))
        story.say(stored_fact(run, 1, story.dice))
    story.settle()
    under_way = {each.agent for each in story.state.runs.values() if each.is_under_way}
    assert under_way == {"a1", "a2"}
    assert orders(story) == {"a1": ("1.31.1", 2, NEW), "a2": ("1.30.0", 4, OLD)}


def a_story_on_several_frameworks() -> Story:
    """Return a story whose three agents have a framework each, and run one model."""
    story = Story(random.Random(1))
    agents = agents_of(o=["onnxruntime"], v=["openvino"], l=["litert"])
    story.agents |= {own.announcement.agent: own for own in agents}
    request = a_request(spread="all", model=a_model_of(*FRAMEWORKS))
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    story.settle()
    return story


def test_agents_of_several_frameworks_start_one_run_each_with_their_own_variant() -> None:
    story = a_story_on_several_frameworks()
    starts = (own for own in effects(story.state, story.fleet()) if isinstance(own, Start))
    orders = [order_of(story.state, start) for start in starts]
    names = {order.agent: order.subject.model.framework.name for order in orders}
    assert names == {"o": "onnxruntime", "v": "openvino", "l": "litert"}


def test_the_status_of_a_run_names_the_framework_of_its_agent() -> None:
    status = status_of(a_story_on_several_frameworks().state)
    assert status.framework == "onnxruntime 2.0, openvino 2.0, litert 2.0"
    names = {run.agent: run.framework for run in status.runs}
    assert names == {"o": "onnxruntime 2.0", "v": "openvino 2.0", "l": "litert 2.0"}
