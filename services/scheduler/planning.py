"""From a match to sessions and runs. Pure.

Sessions: one for each agent and batch size that has runs. Groups: one for each scenario, in the
order asked. Runs of a group, interleaved by the agent: at level model or above just that level;
deeper, one at model and one at each level down to the one asked, because a number for a level
comes from runs where that level is the deepest one on. Levels below what the agent can trace
are left out, but for the one asked: the agent runs that as deep as it can and says so.

Batch sizes: a scenario for throughput (`batched`, and any with several queries in flight in a
closed loop) runs at every batch size. The others look at latency: beside such a scenario they
run at batch size 1, or the smallest named. Without one they run at every batch size too, so
that none that was asked for is left out.

Pacing: `auto` is remote for an open loop at level model or above, else local. Remote runs are
one block.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from mlscope.load import InvalidParameter, Load, LoadError, UnknownScenario, scenario_named
from schemas.identity import token_of
from schemas.level import Level
from schemas.plan import Plan, RunPlan, SessionPlan, Subject
from schemas.request import Evaluate, ScenarioChoice
from schemas.status import Catalog
from services.scheduler.digests import digest_of
from services.scheduler.errors import invalid, unknown
from services.scheduler.matching import Candidate, Match
from services.scheduler.resolving import near, samples_of

MOST_RUNS = 1000
"""Runs of one evaluation: its plan is one message."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What planning needs of a load; the load itself may be hundreds of megabytes."""

    queries: int
    is_open_loop: bool
    is_for_throughput: bool
    pacing: Literal["local", "remote"]
    last_due_s: float


@dataclass(frozen=True, slots=True)
class _Group:
    """One scenario of a request, at one batch size."""

    number: int
    name: str
    choice: ScenarioChoice
    parameters: dict[str, Any]
    load: _Shape


def plan(request: Evaluate, match: Match, catalog: Catalog) -> Plan:
    """Return what is to be done on the agents of a match. Raises RequestRefused."""
    assert match.agents, "nobody to plan for"
    sessions = [
        _session(request, agent, batch_size, groups, len(match.agents) > 1)
        for agent in match.agents
        for batch_size, groups in _groups(request, samples_of(match.dataset), catalog)
    ]
    runs = sum(len(session.runs) for session in sessions)
    if runs > MOST_RUNS:
        raise invalid("scenarios", f"{runs} runs", f"at most {MOST_RUNS} runs in an evaluation")
    return Plan(subject=_subject(request, match), sessions=tuple(sessions), refusals=match.reasons)


def check_loads(request: Evaluate, samples: int, catalog: Catalog) -> None:
    """Raise RequestRefused when a load of the request can't be made."""
    for _ in _groups(request, samples, catalog):
        pass


def _subject(request: Evaluate, match: Match) -> Subject:
    best = match.agents[0]
    versions = {agent.version for agent in match.agents}
    return Subject(
        model=match.model,
        model_digest=digest_of(match.model),
        dataset=match.dataset,
        framework=best.framework,
        framework_version=best.version if len(versions) == 1 else "",
        device=best.device,
        options=request.options,
        warmup=request.warmup,
        blocks=request.blocks,
        outputs=request.outputs,
    )


def _groups(
    request: Evaluate, samples: int, catalog: Catalog
) -> Iterator[tuple[int, tuple[_Group, ...]]]:
    """Yield each batch size with the groups that run at it, in the order asked."""
    smallest = min(request.batch_sizes)
    names = _names(request)
    loads = {
        (number, size): replace(_group(number, choice, size, samples, catalog), name=names[number])
        for number, choice in enumerate(request.scenarios)
        for size in request.batch_sizes
    }
    numbers = range(len(request.scenarios))
    every = [number for number in numbers if loads[number, smallest].load.is_for_throughput]
    for size in request.batch_sizes:
        chosen = [n for n in numbers if not every or n in every or size == smallest]
        groups = tuple(loads[number, size] for number in chosen)
        for group in groups:
            _check_pacing(request, group)
        if groups:
            yield size, groups


def _shape(load: Load) -> _Shape:
    last_ns = 0 if load.due_ns is None or not load.queries else int(load.due_ns[-1])
    return _Shape(
        queries=load.queries,
        is_open_loop=load.open_loop,
        is_for_throughput=not load.open_loop and load.concurrency > 1,
        pacing=load.pacing,
        last_due_s=last_ns / 1e9,
    )


def _group(
    number: int, choice: ScenarioChoice, batch_size: int, samples: int, catalog: Catalog
) -> _Group:
    field = f"scenarios.{number}"
    defaults = {each.name: each.parameters for each in catalog.scenarios}
    parameters = {**defaults.get(choice.name, {}), **choice.parameters}
    try:
        load = _shape(scenario_named(choice.name)(parameters, batch_size, samples))
    except UnknownScenario as error:
        raise unknown(f"{field}.name", choice.name, near(choice.name, error.known)) from error
    except InvalidParameter as error:
        raise invalid(_field_of(field, error), error.found, error.allowed) from error
    except LoadError as error:
        raise invalid(f"{field}.parameters", parameters, str(error)) from error
    return _Group(number, choice.name, choice, {**parameters, "queries": load.queries}, load)


def _names(request: Evaluate) -> list[str]:
    """Return a name for each scenario: its own, with a number from the second time on."""
    names: list[str] = []
    for number, choice in enumerate(request.scenarios):
        times = sum(other.name == choice.name for other in request.scenarios[:number])
        names.append(f"{choice.name}{times + 1}" if times else choice.name)
    return names


def _field_of(field: str, error: InvalidParameter) -> str:
    """Return the field of the request that a scenario objects to."""
    of_request = {"batch_size": "batch_sizes", "samples": "dataset"}
    return of_request.get(error.field, f"{field}.parameters.{error.field}")


def _check_pacing(request: Evaluate, group: _Group) -> None:
    if request.pacing == "remote":
        if not group.load.is_open_loop:
            raise invalid(
                "pacing", "remote", f"auto or local: {group.choice.name} is a closed loop"
            )
        if request.trace_level > Level.MODEL:
            raise invalid("pacing", "remote", "auto or local at levels deeper than model")
    if group.load.last_due_s > request.run_timeout_s:
        allowed = f"{group.load.last_due_s:.1f} or more: the last query is due then"
        raise invalid("run_timeout_s", request.run_timeout_s, allowed)


def _session(
    request: Evaluate,
    agent: Candidate,
    batch_size: int,
    groups: tuple[_Group, ...],
    names_agent: bool,
) -> SessionPlan:
    prefix = f"{agent.agent}-b{batch_size}" if names_agent else f"b{batch_size}"
    levels = levels_of(request.trace_level, agent.deepest_level)
    runs = [
        RunPlan(
            run=token_of(f"{prefix}-{group.name}-{level.name.lower()}"),
            group=group.number,
            scenario=group.choice.name,
            parameters=group.parameters,
            level=level,
            pacing=_pacing(request, group.load),
            queries=group.load.queries,
            timeout_s=request.run_timeout_s,
        )
        for group in groups
        for level in levels
    ]
    return SessionPlan(
        session=token_of(prefix), agent=agent.agent, batch_size=batch_size, runs=tuple(runs)
    )


def levels_of(asked: Level, deepest: Level) -> tuple[Level, ...]:
    """Return the levels to measure each on its own, for a level asked of an agent so deep."""
    if asked <= Level.MODEL:
        return (asked,)
    between = (
        level
        for level in Level
        if Level.MODEL <= level < asked
        and (level == Level.MODEL or level < max(deepest, Level.MODEL))
        and not (asked == Level.FULL and level == Level.HARDWARE)
    )
    return (*between, asked)


def _pacing(request: Evaluate, load: _Shape) -> Literal["local", "remote"]:
    if request.pacing == "auto":
        is_remote = load.pacing == "remote" and request.trace_level <= Level.MODEL
        return "remote" if is_remote and load.is_open_loop else "local"
    return request.pacing
