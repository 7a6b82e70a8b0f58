"""The sessions and runs of a matched request. Pure.

Sessions: one for each agent, batch size and variant that has runs. Groups: one for each scenario,
in the order of the request. Runs of a group, which the agent interleaves: one for each level, see
`levels`.

Batch sizes: a scenario for throughput (`batched`, and any closed loop with several queries in
flight) runs at every batch size. All other scenarios measure latency: together with one for
throughput they run at the smallest batch size only, else at every batch size.

How sessions are made of groups is in `sessions`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mlscope.load import InvalidParameter, LoadError, UnknownParameter, UnknownScenario
from mlscope.manifests.constraints import version_order
from mlscope.manifests.digests import digest_of
from schemas.level import Level
from schemas.manifest import DatasetManifest, HardwareManifest, SoftwareManifest
from schemas.plan import Build, Plan, Subject, Variant
from schemas.request import IMPORTED, MEASURED_BY, Blocks, Evaluate
from schemas.status import Catalog
from services.scheduler.errors import invalid, unknown, unknown_parameter
from services.scheduler.placement.candidates import Candidate, Match
from services.scheduler.placement.certifying import certification_notes
from services.scheduler.placement.levels import Levels, levels_by_variant
from services.scheduler.placement.load_shapes import LoadShapes
from services.scheduler.placement.resolving import (
    described_system,
    samples_of,
    similar_names,
)
from services.scheduler.placement.sent import sent_notes
from services.scheduler.placement.sessions import (
    Group,
    Target,
    pacing_of,
    run_count,
    sessions_of,
)

MAX_RUNS = 1000
"""Runs of one evaluation: its plan is one message."""

MAX_REMOTE_QUERIES = 1_000_000
"""Queries of a remote load: their bytes are made before its clock starts."""

MAX_REMOTE_SAMPLES = 20_000_000
"""Samples in the queries of a remote load."""

MAX_SAMPLES = 100_000_000
"""Samples in all loads of one evaluation."""


@dataclass(frozen=True, slots=True)
class _Outline:
    """A plan that was checked, before its sessions are made.

    By agent: its `builds` and the `levels` of each variant; `groups` by batch size.
    """

    builds: Mapping[str, Build]
    levels: Mapping[str, Mapping[Variant, Levels]]
    groups: Mapping[int, tuple[Group, ...]]


def plan(
    request: Evaluate, match: Match, catalog: Catalog, shapes: LoadShapes | None = None
) -> Plan:
    """Return the plan of a request for the agents of its `match`. Raises RequestRefused.

    `catalog` has the defaults of scenarios, `shapes` keeps loads that were made before.
    """
    outline = _outline(request, match, catalog, shapes)
    names = match.session_names
    sessions = [
        session
        for agent in match.agents
        for batch_size, groups in outline.groups.items()
        for session in sessions_of(
            request,
            Target(agent.agent, batch_size, names[agent.agent]),
            outline.levels[agent.agent],
            groups,
        )
    ]
    best = outline.builds[match.agents[0].agent]
    if any(build is not best and build != best for build in outline.builds.values()):
        sessions = [
            session.model_copy(update={"build": outline.builds[session.agent]})
            for session in sessions
        ]
    # What a recording's loads could certify was settled when they were measured.
    is_played_back = {IMPORTED, MEASURED_BY} <= request.labels.keys()
    rule = request.blocks or Blocks()
    offered_hz = {
        (group.number, size): group.load.offered_hz
        for size, groups in outline.groups.items()
        for group in groups
        if not group.is_cold
    }
    return Plan(
        subject=_subject(request, match, catalog, outline.builds),
        sessions=tuple(sessions),
        notes=() if is_played_back else certification_notes(sessions, rule, offered_hz),
        # Of agents that the request leaves out by name nobody asks why they were not chosen.
        refusals=tuple(
            reason
            for reason in match.reasons
            if not request.agents or reason.agent in request.agents
        ),
    )


def check_plan(
    request: Evaluate, match: Match, catalog: Catalog, shapes: LoadShapes | None = None
) -> None:
    """Raise RequestRefused where `plan` would for a `request`, its `match` and the `catalog`.

    `shapes` keeps loads that were made before. A match without agents is planned later: then only
    the loads are checked.
    """
    if match.agents:
        _outline(request, match, catalog, shapes)
    else:
        _groups(_Loads(request, match.dataset, catalog, shapes), 1)


def _outline(
    request: Evaluate, match: Match, catalog: Catalog, shapes: LoadShapes | None
) -> _Outline:
    assert match.agents, "there is an agent to plan for"
    builds: dict[str, Build] = {}
    levels: dict[str, Mapping[Variant, Levels]] = {}
    first_of_kind: dict[tuple[int, str], str] = {}
    for agent in match.agents:
        # Agents of one kind have the same offer, while the match is alive.
        first = first_of_kind.setdefault((id(agent.offer), agent.container), agent.agent)
        if first == agent.agent:
            builds[first] = _build(request, match, agent)
            levels[first] = levels_by_variant(request, agent, builds[first])
        builds[agent.agent], levels[agent.agent] = builds[first], levels[first]
    every_level = [levels for variants in levels.values() for levels in variants.values()]
    loads = _Loads(request, match.dataset, catalog, shapes)
    groups = _groups(loads, sum(map(len, every_level)))
    runs = sum(
        run_count(variants, groups_of_size)
        for variants in levels.values()
        for groups_of_size in groups.values()
    )
    if not runs:
        allowed = "also '': cold starts need a plain session"
        raise invalid("variants", request.variants, allowed)
    _check_run_count(runs)
    return _Outline(builds, levels, groups)


def _subject(
    request: Evaluate, match: Match, catalog: Catalog, builds: Mapping[str, Build]
) -> Subject:
    best = match.agents[0]
    build = builds[best.agent]
    has_variants = any(own.model for own in builds.values())
    need = described_system(request.system, catalog)
    versions = {agent.offer.version for agent in match.agents}
    return Subject(
        model=match.model,
        model_digest=match.digest or digest_of(match.model),
        dataset=match.dataset,
        framework=best.framework,
        framework_version=best.offer.version if len(versions) == 1 else "",
        device=build.device,
        options=build.options,
        warmup=request.warmup,
        blocks=request.blocks or Blocks(),
        outputs=request.outputs,
        collectors=request.collectors,
        framework_manifest=build.framework_manifest,
        container=build.container,
        hardware=need.hardware if isinstance(need.hardware, HardwareManifest) else None,
        software=need.software if isinstance(need.software, SoftwareManifest) else None,
        notes=sent_notes(request, match.manifest or match.model, match.dataset),
        manifest=match.manifest if has_variants else None,
    )


def _build(request: Evaluate, match: Match, agent: Candidate) -> Build:
    """Return an agent's build; options of the request overrule the model's, these the build's."""
    offer = agent.offer
    defaults = offer.manifest.defaults if offer.manifest else {}
    is_of_match = offer.model == match.model
    return Build(
        framework_version=offer.version,
        device=offer.device,
        options={**defaults, **offer.model.options, **request.options},
        framework_manifest=offer.manifest,
        container=agent.container,
        framework="" if is_of_match else offer.framework,
        model=None if is_of_match else offer.model,
    )


class _Loads:
    """The loads of one request, made on demand."""

    def __init__(
        self,
        request: Evaluate,
        dataset: DatasetManifest,
        catalog: Catalog,
        shapes: LoadShapes | None,
    ) -> None:
        self.request = request
        self.is_counted = samples_of(dataset) > 0
        # Without a number of samples only the number of queries matters.
        self._samples = samples_of(dataset) or 1
        self._shapes = shapes or LoadShapes()
        oldest_first = sorted(catalog.scenarios, key=lambda s: version_order(s.version))
        self._defaults = {scenario.name: scenario.parameters for scenario in oldest_first}
        names = [choice.name for choice in request.scenarios]
        counts = [names[:number].count(name) for number, name in enumerate(names)]
        #: a name for each scenario: its own, with a number from the second time on
        self._names = [
            f"{name}{n + 1}" if n else name for name, n in zip(names, counts, strict=True)
        ]
        self._sample_counts: dict[tuple[int, int], int] = {}

    def group(self, number: int, size: int) -> Group:
        """Return a scenario of the request at a batch size. Raises RequestRefused."""
        choice = self.request.scenarios[number]
        parameters = {**self._defaults.get(choice.name, {}), **choice.parameters}
        field = f"scenarios.{number}"
        try:
            load = self._shapes.of(choice.name, parameters, size, self._samples)
        except UnknownScenario as error:
            names = similar_names(choice.name, error.available)
            raise unknown(f"{field}.name", choice.name, names, error.available) from error
        except UnknownParameter as error:
            parameter = f"{field}.parameters.{error.field}"
            raise unknown_parameter(parameter, error.actual, error.allowed) from error
        except InvalidParameter as error:
            fields = {"batch_size": "batch_sizes", "samples": "dataset"}
            parameter = fields.get(error.field, f"{field}.parameters.{error.field}")
            raise invalid(parameter, error.actual, error.allowed) from error
        except LoadError as error:
            raise invalid(f"{field}.parameters", parameters, str(error)) from error
        self._sample_counts[number, size] = load.queries * size
        samples = sum(self._sample_counts.values())
        if samples > MAX_SAMPLES:
            raise invalid("scenarios", f"{samples} samples", f"at most {MAX_SAMPLES} in all")
        parameters["queries"] = load.queries
        return Group(number, self._names[number], choice, parameters, load)


def _groups(loads: _Loads, runs_per_group: int) -> dict[int, tuple[Group, ...]]:
    """Return the groups of each batch size that has any, in the order of the request.

    Raises RequestRefused, for too many runs before every load is made.
    """
    request = loads.request
    numbers, sizes = range(len(request.scenarios)), request.batch_sizes
    _check_run_count(runs_per_group * (len(numbers) + len(sizes) - 1))
    smallest = min(sizes)
    of_every_size = [n for n in numbers if loads.group(n, smallest).load.is_for_throughput]
    chosen = {
        size: [n for n in numbers if not of_every_size or n in of_every_size or size == smallest]
        for size in sizes
    }
    _check_run_count(runs_per_group * sum(map(len, chosen.values())))
    groups: dict[int, tuple[Group, ...]] = {}
    for size in sizes:
        of_size = tuple(loads.group(number, size) for number in chosen[size])
        for group in of_size:
            _check_pacing(loads, group, size)
        if of_size:
            groups[size] = of_size
    return groups


def _check_run_count(runs: int) -> None:
    if runs > MAX_RUNS:
        raise invalid("scenarios", f"{runs} runs", f"at most {MAX_RUNS} runs in an evaluation")


def _check_pacing(loads: _Loads, group: Group, size: int) -> None:
    request = loads.request
    if request.pacing == "remote":
        if not group.load.is_open_loop:
            allowed = f"auto or local: {group.choice.name} is a closed loop"
            raise invalid("pacing", "remote", allowed)
        if request.trace_level > Level.MODEL:
            raise invalid("pacing", "remote", "auto or local at levels deeper than model")
    least = request.blocks.least if request.blocks else 1
    if pacing_of(request, group.load) == "remote":
        limit = min(MAX_REMOTE_QUERIES, MAX_REMOTE_SAMPLES // size) // least
        if group.load.queries > limit:
            field = f"scenarios.{group.number}.parameters.queries"
            allowed = f"at most {limit} for a remote load; more with pacing local"
            raise invalid(field, group.load.queries, allowed)
    if group.load.last_due_s > request.run_timeout_s:
        allowed = f"{group.load.last_due_s:.1f} or more: the last query is due then"
        raise invalid("run_timeout_s", request.run_timeout_s, allowed)
    if not loads.is_counted and pacing_of(request, group.load) == "remote":
        allowed = "the number of samples, or pacing local: a remote load needs the number"
        raise invalid("dataset.source.samples", "0, not known", allowed)
