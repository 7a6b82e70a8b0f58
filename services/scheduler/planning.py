"""From a match to sessions and runs. Pure.

Sessions: one for each agent and batch size that has runs. Groups: one for each scenario, in the
order asked. Runs of a group, interleaved by the agent: at level model or above just that level;
deeper, one at model and one at each level down to the one asked, because a number for a level
comes from runs where that level is the deepest one on. Levels below what the agent can trace
are left out, but for the one asked: the agent runs that as deep as it can and says so. Levels
that a request names stand for all of these.

Batch sizes: a scenario for throughput (`batched`, and any with several queries in flight in a
closed loop) runs at every batch size. The others look at latency: beside such a scenario they
run at batch size 1, or the smallest named. Without one they run at every batch size too, so
that none that was asked for is left out.

Variants: hardware counters are read in a session of their own, and so is what is measured once
more one launch at a time: asked for, or because operators that run side by side would leave
parents ambiguous. The scenario `cold` makes a session for each opening of the model and level.

Pacing: `auto` is remote for an open loop at level model or above, else local. Remote runs are
one block.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlscope.load import InvalidParameter, LoadError, UnknownScenario
from mlscope.load.scenarios import COLD, WARM
from mlscope.manifests.constraints import newest_first
from schemas.identity import token_of
from schemas.level import Level
from schemas.manifest import HardwareManifest, ModelManifest, SoftwareManifest
from schemas.plan import Build, Plan, RunPlan, SessionPlan, Subject, Variant
from schemas.request import Evaluate, ScenarioChoice
from schemas.status import Catalog
from services.scheduler.digests import digest_of
from services.scheduler.errors import invalid, unknown
from services.scheduler.matching import Candidate, Match
from services.scheduler.resolving import described_system, near, samples_of, sent_notes
from services.scheduler.shapes import Shape, Shapes

MOST_RUNS = 1000
"""Runs of one evaluation: its plan is one message."""

MOST_REMOTE = 1_000_000
"""Queries of a remote load: their bytes are made before its clock starts."""

MOST_REMOTE_SAMPLES = 20_000_000
"""Samples that these carry."""

MOST_ISSUED = 100_000_000
"""Samples that the loads of one evaluation carry in all."""


@dataclass(frozen=True, slots=True)
class _Group:
    """One scenario of a request, at one batch size."""

    number: int
    name: str
    choice: ScenarioChoice
    parameters: dict[str, Any]
    load: Shape


def plan(request: Evaluate, match: Match, catalog: Catalog, shapes: Shapes | None = None) -> Plan:
    """Return what is to be done on the agents of a match. Raises RequestRefused.

    `shapes` remembers loads that were made before.
    """
    assert match.agents, "nobody to plan for"
    loads = _Loads(request, samples_of(match.dataset), catalog, shapes or Shapes())
    builds = {each.agent: _build(request, match.model, each) for each in match.agents}
    wanted = {
        agent.agent: variants_of(request, agent, builds[agent.agent]) for agent in match.agents
    }
    runs = sum(len(levels) for each in wanted.values() for levels in each.values())
    groups = list(_groups(loads, runs))
    sessions = [
        session
        for agent in match.agents
        for batch_size, each in groups
        for session in _sessions(
            request,
            Place(agent.agent, batch_size, len(match.agents) > 1),
            wanted[agent.agent],
            each,
        )
    ]
    if not sessions:
        raise invalid(
            "variants", request.variants, "'' as well: cold starts go with plain sessions"
        )
    _check_runs(sum(len(session.runs) for session in sessions))
    subject = _subject(request, match, catalog)
    best = builds[match.agents[0].agent]
    if any(build != best for build in builds.values()):
        sessions = [each.model_copy(update={"build": builds[each.agent]}) for each in sessions]
    return Plan(subject=subject, sessions=tuple(sessions), refusals=match.reasons)


def check_loads(
    request: Evaluate, samples: int, catalog: Catalog, shapes: Shapes | None = None
) -> None:
    """Raise RequestRefused when a load of the request can't be made."""
    for _ in _groups(_Loads(request, samples, catalog, shapes or Shapes()), 1):
        pass


def _subject(request: Evaluate, match: Match, catalog: Catalog) -> Subject:
    best = match.agents[0]
    build = _build(request, match.model, best)
    need = described_system(request.system, catalog)
    versions = {agent.version for agent in match.agents}
    return Subject(
        model=match.model,
        model_digest=match.digest or digest_of(match.model),
        dataset=match.dataset,
        framework=best.framework,
        framework_version=best.version if len(versions) == 1 else "",
        device=build.device,
        options=build.options,
        warmup=request.warmup,
        blocks=request.blocks,
        outputs=request.outputs,
        collectors=request.collectors,
        framework_manifest=build.framework_manifest,
        hardware=need.hardware if isinstance(need.hardware, HardwareManifest) else None,
        software=need.software if isinstance(need.software, SoftwareManifest) else None,
        notes=sent_notes(request, catalog),
    )


def _build(request: Evaluate, model: ModelManifest, agent: Candidate) -> Build:
    """Return what an agent's framework gives a session; model and request overrule its options."""
    given = agent.manifest.defaults if agent.manifest else {}
    return Build(
        framework_version=agent.version,
        device=agent.device,
        options={**given, **model.options, **request.options},
        framework_manifest=agent.manifest,
    )


class _Loads:
    """The loads of one request, made as they are asked for."""

    def __init__(self, request: Evaluate, samples: int, catalog: Catalog, shapes: Shapes) -> None:
        self.request = request
        self._names = _names(request)
        oldest_first = sorted(catalog.scenarios, key=lambda each: newest_first(each.version))
        self._defaults = {each.name: each.parameters for each in oldest_first}
        #: of an uncounted source only how many queries there are is asked for
        self._samples = samples or 1
        self.is_counted = samples > 0
        self._shapes = shapes
        self._issued: dict[tuple[int, int], int] = {}

    def group(self, number: int, size: int) -> _Group:
        """Return a scenario of the request at a batch size. Raises RequestRefused."""
        choice = self.request.scenarios[number]
        parameters = {**self._defaults.get(choice.name, {}), **choice.parameters}
        load = self._shape(f"scenarios.{number}", choice.name, parameters, size)
        self._issued[number, size] = load.queries * size
        issued = sum(self._issued.values())
        if issued > MOST_ISSUED:
            raise invalid("scenarios", f"{issued} samples", f"at most {MOST_ISSUED} in all")
        parameters["queries"] = load.queries
        return _Group(number, self._names[number], choice, parameters, load)

    def _shape(self, field: str, name: str, parameters: dict[str, Any], size: int) -> Shape:
        try:
            return self._shapes.of(name, parameters, size, self._samples)
        except UnknownScenario as error:
            raise unknown(f"{field}.name", name, near(name, error.known)) from error
        except InvalidParameter as error:
            raise invalid(_field_of(field, error), error.found, error.allowed) from error
        except LoadError as error:
            raise invalid(f"{field}.parameters", parameters, str(error)) from error


def _groups(loads: _Loads, runs_a_group: int) -> Iterator[tuple[int, tuple[_Group, ...]]]:
    """Yield each batch size with the groups that run at it, in the order asked.

    How many runs that makes is checked first: by what they are at least, then by what they are.
    """
    request = loads.request
    numbers, sizes = range(len(request.scenarios)), request.batch_sizes
    _check_runs(runs_a_group * (len(numbers) + len(sizes) - 1))
    smallest = min(sizes)
    every = [n for n in numbers if loads.group(n, smallest).load.is_for_throughput]
    chosen = {
        size: [n for n in numbers if not every or n in every or size == smallest] for size in sizes
    }
    _check_runs(runs_a_group * sum(map(len, chosen.values())))
    for size in sizes:
        groups = tuple(loads.group(number, size) for number in chosen[size])
        for group in groups:
            _check_pacing(request, group, size)
            if not loads.is_counted and _pacing(request, group.load) == "remote":
                allowed = "how many samples it has, or pacing local: a load from afar counts them"
                raise invalid("dataset.source.samples", "0, not known", allowed)
        if groups:
            yield size, groups


def _check_runs(runs: int) -> None:
    if runs > MOST_RUNS:
        raise invalid("scenarios", f"{runs} runs", f"at most {MOST_RUNS} runs in an evaluation")


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


def _check_pacing(request: Evaluate, group: _Group, size: int) -> None:
    if request.pacing == "remote":
        if not group.load.is_open_loop:
            raise invalid(
                "pacing", "remote", f"auto or local: {group.choice.name} is a closed loop"
            )
        if request.trace_level > Level.MODEL:
            raise invalid("pacing", "remote", "auto or local at levels deeper than model")
    if _pacing(request, group.load) == "remote":
        most = min(MOST_REMOTE, MOST_REMOTE_SAMPLES // size)
        if group.load.queries > most:
            field = f"scenarios.{group.number}.parameters.queries"
            allowed = f"at most {most} for a remote load; more with pacing local"
            raise invalid(field, group.load.queries, allowed)
    if group.load.last_due_s > request.run_timeout_s:
        allowed = f"{group.load.last_due_s:.1f} or more: the last query is due then"
        raise invalid("run_timeout_s", request.run_timeout_s, allowed)


@dataclass(frozen=True, slots=True)
class Place:
    """Where sessions are: an agent and a batch size; a plan for several names its agents."""

    agent: str
    batch_size: int
    names_agent: bool = False

    @property
    def prefix(self) -> str:
        """Return what its sessions are called."""
        return f"{self.agent}-b{self.batch_size}" if self.names_agent else f"b{self.batch_size}"


def _sessions(
    request: Evaluate,
    place: Place,
    wanted: Mapping[Variant, tuple[Level, ...]],
    groups: tuple[_Group, ...],
) -> Iterator[SessionPlan]:
    """Yield the sessions of one agent at one batch size: a process each."""
    warm = tuple(group for group in groups if group.choice.name != COLD)
    for variant, levels in wanted.items():
        prefix = f"{place.prefix}-{variant}" if variant else place.prefix
        runs = [_run(request, prefix, group, level) for group in warm for level in levels]
        if runs:
            yield _session(place, prefix, runs, variant)
    for group in groups:
        if group.choice.name == COLD:
            for level in wanted.get("", ()):
                for opening in range(group.load.queries):
                    yield _cold(request, place, group, (level, opening))


def _cold(request: Evaluate, place: Place, group: _Group, which: tuple[Level, int]) -> SessionPlan:
    """Return one opening of the model, and the warm queries to compare it with."""
    level, opening = which
    prefix = f"{place.prefix}-{group.name}{opening}-{level.name.lower()}"
    warm = int(group.parameters.get("warm", WARM))
    cold = RunPlan(
        run=token_of(f"{prefix}-first"),
        group=2 * group.number,
        scenario=COLD,
        parameters={**group.parameters, "queries": 1},
        level=level,
        queries=1,
        timeout_s=request.run_timeout_s,
    )
    again = RunPlan(
        run=token_of(f"{prefix}-warm"),
        group=2 * group.number + 1,
        scenario="online",
        parameters={"queries": warm},
        level=level,
        queries=warm,
        timeout_s=request.run_timeout_s,
    )
    return _session(place, prefix, [cold, again], "cold")


def _session(place: Place, prefix: str, runs: Sequence[RunPlan], variant: Variant) -> SessionPlan:
    return SessionPlan(
        session=token_of(prefix),
        agent=place.agent,
        batch_size=place.batch_size,
        runs=tuple(runs),
        variant=variant,
    )


def _run(request: Evaluate, prefix: str, group: _Group, level: Level) -> RunPlan:
    return RunPlan(
        run=token_of(f"{prefix}-{group.name}-{level.name.lower()}"),
        group=group.number,
        scenario=group.choice.name,
        parameters=group.parameters,
        level=level,
        pacing=_pacing(request, group.load),
        queries=group.load.queries,
        timeout_s=request.run_timeout_s,
    )


def variants_of(
    request: Evaluate, agent: Candidate, build: Build
) -> dict[Variant, tuple[Level, ...]]:
    """Return the levels to measure in each kind of session on an agent that is set up so.

    Raises RequestRefused where only kinds are asked for of which one has nothing to measure.
    """
    asked = request.trace_level
    has_counters = Level.HARDWARE in agent.collected and asked >= Level.HARDWARE
    inner = Level.SYSTEM if has_counters and asked == Level.HARDWARE else asked
    named = {*request.levels}
    if has_counters and len(named) > 1:
        # Counters are read in a process of their own, whether its level is named or implied.
        named.discard(Level.HARDWARE)
    variants: dict[Variant, tuple[Level, ...]] = {
        "": tuple(sorted(named)) or levels_of(inner, agent.deepest_level, agent.collected)
    }
    if request.serialised or (asked > Level.FRAMEWORK and _overlaps(build)):
        variants["serialised"] = (min(asked, Level.SYSTEM),)
    if has_counters:
        variants["counters"] = (Level.HARDWARE,)
    lacking = [each for each in request.variants if each not in variants]
    if lacking:
        has = ", ".join(each or "'' (plain)" for each in variants)
        raise invalid("variants", lacking[0], f"of this level on {agent.agent}: {has}")
    return {each: variants[each] for each in variants if each in (request.variants or variants)}


def _overlaps(build: Build) -> bool:
    """Say whether operators run side by side, so that what lies in which is ambiguous."""
    threads = build.options.get("inter_threads", 1)
    return isinstance(threads, int) and threads > 1


def levels_of(
    asked: Level, deepest: Level, collected: frozenset[Level] = frozenset()
) -> tuple[Level, ...]:
    """Return the levels to measure each on its own, for a level asked of an agent.

    Its framework is traced down to `deepest`; `collected` are levels of its other collectors.
    """
    if asked <= Level.MODEL:
        return (asked,)
    given = {level for level in Level if level <= deepest} | collected | {Level.MODEL}
    inner = sorted(level for level in given if Level.MODEL <= level <= min(asked, Level.HARDWARE))
    if asked == Level.FULL:
        inner = [level for level in inner if level != Level.HARDWARE]
    # The deepest one it has is what the run of the level asked for comes down to.
    between = [level for level in inner if level < asked][: None if asked in inner else -1]
    return (*(between or [Level.MODEL]), asked)


def _pacing(request: Evaluate, load: Shape) -> Literal["local", "remote"]:
    if request.pacing == "auto":
        # Levels that are compared take turns, which remote loads do not.
        is_single = len(set(request.levels)) < 2 and request.trace_level <= Level.MODEL
        is_remote = load.pacing == "remote" and is_single
        return "remote" if is_remote and load.is_open_loop else "local"
    return request.pacing
