"""The sessions of a plan, with their runs, for one agent and batch size. Pure.

A variant that has runs is one session. The scenario `cold` makes a session for each opening of the
model and level.

Pacing: `auto` is remote for an open loop at level model or above, else local.

A remote run whose request gives its number of queries has that many in each of the least blocks,
and no further one for the sake of its result.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from mlscope.load.scenarios import COLD, WARM
from schemas.level import Level
from schemas.plan import RunPlan, SessionPlan, Variant
from schemas.request import Blocks, Evaluate, ScenarioChoice
from schemas.values.identity import token_of
from services.scheduler.placement.levels import Levels
from services.scheduler.placement.load_shapes import LoadShape

FIRST, WARM_RUN = "-first", "-warm"
"""Ends of the names of a cold start's runs."""


@dataclass(frozen=True, slots=True)
class Group:
    """One scenario of a request, at one batch size."""

    number: int
    name: str
    choice: ScenarioChoice
    parameters: dict[str, Any]
    load: LoadShape

    @property
    def is_cold(self) -> bool:
        """Whether it measures openings of the model."""
        return self.choice.name == COLD


@dataclass(frozen=True, slots=True)
class Target:
    """The agent and batch size of sessions.

    `name` is what their names begin with: '' in a plan for one agent, else the agent and, where
    agents have several frameworks, its framework.
    """

    agent: str
    batch_size: int
    name: str = ""

    @property
    def prefix(self) -> str:
        """The beginning of its sessions' names."""
        return f"{self.name}-b{self.batch_size}" if self.name else f"b{self.batch_size}"


def pacing_of(request: Evaluate, load: LoadShape) -> Literal["local", "remote"]:
    """Return who issues a load of a request: the agent itself, or the scheduler from afar."""
    if request.pacing == "auto":
        # Levels that are compared take turns, which remote loads cannot.
        is_single = len(set(request.levels)) < 2 and request.trace_level <= Level.MODEL
        is_remote = load.pacing == "remote" and is_single
        return "remote" if is_remote and load.is_open_loop else "local"
    return request.pacing


def _own_rule(request: Evaluate, group: Group) -> Blocks | None:
    """Return the stop rule of a load with a requested number of queries, None for the request's."""
    rule = request.blocks
    is_remote = pacing_of(request, group.load) == "remote"
    if rule is None or rule.of != "result" or not is_remote:
        return None
    is_counted = "queries" in group.choice.parameters
    return rule.model_copy(update={"most": rule.least, "budget_s": 0.0}) if is_counted else None


def run_count(levels: Mapping[Variant, Levels], groups: Sequence[Group]) -> int:
    """Return the number of runs that `sessions_of` makes for one agent and batch size."""
    warm = sum(not group.is_cold for group in groups)
    openings = sum(group.load.queries for group in groups if group.is_cold)
    return warm * sum(map(len, levels.values())) + 2 * openings * len(levels.get("", ()))


def sessions_of(
    request: Evaluate,
    target: Target,
    levels: Mapping[Variant, Levels],
    groups: Sequence[Group],
) -> Iterator[SessionPlan]:
    """Yield the sessions of one agent at one batch size, the `target`: a process each.

    They do the `groups` of the `request`, at the `levels` of each variant.
    """
    for variant, variant_levels in levels.items():
        prefix = "-".join(filter(None, (target.prefix, variant)))
        runs = [
            RunPlan(
                run=token_of(f"{prefix}-{group.name}-{level.name.lower()}"),
                group=group.number,
                scenario=group.choice.name,
                parameters=group.parameters,
                level=level,
                pacing=pacing_of(request, group.load),
                queries=group.load.queries,
                timeout_s=request.run_timeout_s,
                blocks=_own_rule(request, group),
            )
            for group in groups
            if not group.is_cold
            for level in variant_levels
        ]
        if runs:
            yield _session(target, prefix, runs, variant)
    for group in groups:
        if not group.is_cold:
            continue
        for level, opening in product(levels.get("", ()), range(group.load.queries)):
            prefix = f"{target.prefix}-{group.name}{opening}-{level.name.lower()}"
            runs = _cold_runs(request, prefix, group, level)
            yield _session(target, prefix, runs, "cold")


def _cold_runs(request: Evaluate, prefix: str, group: Group, level: Level) -> list[RunPlan]:
    """Return one opening of the model, and the warm queries to compare it with."""
    warm_queries = int(group.parameters.get("warm", WARM))
    of_samples = {name: group.parameters[name] for name in ("samples",) if name in group.parameters}
    first = RunPlan(
        run=token_of(f"{prefix}{FIRST}"),
        group=2 * group.number,
        scenario=COLD,
        parameters={**group.parameters, "queries": 1},
        level=level,
        queries=1,
        timeout_s=request.run_timeout_s,
        blocks=_rule_of_openings(request, group),
    )
    warm = RunPlan(
        run=token_of(f"{prefix}{WARM_RUN}"),
        group=2 * group.number + 1,
        scenario="online",
        parameters={"queries": warm_queries, **of_samples},
        level=level,
        queries=warm_queries,
        timeout_s=request.run_timeout_s,
    )
    return [first, warm]


def _rule_of_openings(request: Evaluate, group: Group) -> Blocks | None:
    """Return the stop rule whose blocks are openings; None where no further ones may follow.

    These are as many as a request names, or as a plan holds that one machine carries out alone.
    """
    rule, openings = request.blocks, group.load.queries
    is_counted = "queries" in group.choice.parameters
    if rule is None or rule.of != "result" or is_counted or request.pacing == "local":
        return None
    return rule.model_copy(update={"least": openings, "most": max(openings, rule.most)})


def further_opening(opening: SessionPlan, number: int) -> SessionPlan:
    """Return a session like the `opening` of a model, as the load's opening of this `number`."""
    prefix = token_of(f"{opening.session}-{number}")
    runs = [
        run.model_copy(update={"run": token_of(f"{prefix}{name}")})
        for run, name in zip(opening.runs, (FIRST, WARM_RUN), strict=True)
    ]
    return opening.model_copy(update={"session": prefix, "runs": tuple(runs)})


def _session(target: Target, prefix: str, runs: Sequence[RunPlan], variant: Variant) -> SessionPlan:
    return SessionPlan(
        session=token_of(prefix),
        agent=target.agent,
        batch_size=target.batch_size,
        runs=tuple(runs),
        variant=variant,
    )
