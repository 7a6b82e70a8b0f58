"""Which evaluations a list shows: the constraints of `ListEvaluations` as filters of rows. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from packaging.specifiers import SpecifierSet

from mlscope.evaluation.status import model_name
from mlscope.manifests.constraints import constraint_of, satisfies
from mlscope.manifests.device_names import gpu_vendors, is_device
from mlscope.manifests.errors import BadConstraint
from schemas.analysis import Estimate, Headline
from schemas.manifest import FrameworkNeed
from schemas.request import PREDICT, PURPOSE, ListEvaluations, SystemNeed
from schemas.status import Catalog
from services.scheduler.errors import invalid
from services.scheduler.evaluation.listing import Row
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.placement.requirements import OF_MANIFEST, machine_mismatches
from services.scheduler.placement.resolving import described_system

_MOST_SEARCHED = 20_000
"""Characters of a row that a search looks at: all that requests may have, and little of others."""

RowFilter = Callable[[Row], bool]


def row_of(state: EvaluationState) -> Row:
    """Return the row by which an evaluation is listed."""
    request, plan = state.request, state.plan
    planned_agents = (session.agent for session in plan.sessions) if plan else ()
    row = Row(
        requested_ns=state.requested_ns,
        model=model_name(request),
        state=state.state,
        agents=tuple(sorted({*planned_agents, *(run.agent for run in state.runs.values())})),
        labels=tuple(sorted(request.labels.items())) if request else (),
        requested_by=state.requested_by,
        is_private=state.is_private,
        is_prediction=request is not None and request.labels.get(PURPOSE) == PREDICT,
    )
    row = with_figures(row, state.headlines)
    if plan is None:
        return _with_text(row, state.evaluation)
    own = {
        (session.build.framework or plan.subject.framework, session.build.framework_version)
        for session in plan.sessions
        if session.build
    }
    row = replace(
        row,
        version=plan.subject.model.version,
        framework=plan.subject.framework,
        framework_version=plan.subject.framework_version,
        device=plan.subject.device,
        further_frameworks=tuple(sorted(own)),
    )
    return _with_text(row, state.evaluation)


def with_figures(row: Row, headlines: Sequence[Headline]) -> Row:
    """Return the `row` with the best figures of an evaluation's `headlines`, by which it sorts."""
    return replace(
        row,
        samples_per_s=_best(max, (headline.samples_per_s for headline in headlines)),
        # The list shows the p90, which headlines of release 0.1 lack.
        latency_ns=_best(min, (headline.p90_ns or headline.latency_ns for headline in headlines)),
        is_noisy=any(headline.is_noisy for headline in headlines) if headlines else None,
    )


def _with_text(row: Row, evaluation: str) -> Row:
    """Return the row with the text that a search looks at."""
    labels = (f"{name}={value}" for name, value in row.labels)
    parts = (evaluation, row.model, row.version, row.framework, row.framework_version)
    further = chain.from_iterable(row.further_frameworks)
    place = (row.device, row.state, row.requested_by, *row.agents)
    searched = (*parts, *further, *place, *labels)
    return replace(row, text=" ".join(searched)[:_MOST_SEARCHED].lower())


def _best(
    choose: Callable[[list[float]], float], estimates: Iterable[Estimate | None]
) -> float | None:
    values = [estimate.value for estimate in estimates if estimate is not None]
    return choose(values) if values else None


def filters_of(command: ListEvaluations, catalog: Catalog) -> list[RowFilter]:
    """Return the filters of a list, beside those of its model's name and its state.

    Constraints on the system are checked against the agents of `catalog`, those on the device
    against the plan. A row that does not say what a constraint is about fails it. Raises
    RequestRefused.
    """
    filters: list[RowFilter] = []
    model_version = _constraint(command.model.partition(":")[2], "model")
    if model_version:
        # The text may also be a whole name with a colon in it.
        model = command.model.lower()
        names_local = any("+" in part.version for part in model_version)
        filters.append(
            lambda row: (
                row.model.lower() == model
                # A manifest that came with a request may be called 1.0.0+4f8a: it is not 1.0.0.
                or ((names_local or "+" not in row.version) and _meets(row.version, model_version))
            )
        )
    need = command.framework or FrameworkNeed(name="")
    framework = need.name.strip().lower()
    framework_version = _constraint(need.version, "framework.version")
    if framework or framework_version:
        filters.append(_on_framework(framework, framework_version))
    filters += _system_filters(described_system(command.system, catalog), catalog)
    if command.requested_by:
        filters.append(lambda row: row.requested_by == command.requested_by)
    if command.agents:
        filters.append(_runs_on(frozenset(command.agents)))
    if command.labels:
        labels = frozenset(command.labels.items())
        filters.append(lambda row: labels.issubset(row.labels))
    if terms := command.search.lower().split():
        filters.append(lambda row: all(term in row.text for term in terms))
    return filters


def _on_framework(name: str, constraint: SpecifierSet) -> RowFilter:
    """Return the filter of rows with a framework of a `name` ('' any) in a version that fits."""

    def has_framework(row: Row) -> bool:
        frameworks = ((row.framework, row.framework_version), *row.further_frameworks)
        return any(
            name in ("", own.lower()) and (not constraint or _meets(version, constraint))
            for own, version in frameworks
        )

    return has_framework


def _meets(version: str, constraint: SpecifierSet) -> bool:
    """Tell whether a version is there and meets a constraint."""
    return bool(version) and satisfies(version, constraint)


def _constraint(text: str, field: str) -> SpecifierSet:
    try:
        return constraint_of(text)
    except BadConstraint as error:
        raise invalid(field, text, ">=1.12.0 <2.0, ==1.15.* or 1.15") from error


def _system_filters(need: SystemNeed, catalog: Catalog) -> list[RowFilter]:
    filters: list[RowFilter] = []
    if need.device.strip():
        filters.append(_on_device(need.device, catalog))
    if need.model_copy(update={"device": ""}) == SystemNeed():
        return filters
    if need.image == OF_MANIFEST:
        allowed = "the name of an image; `manifest` is for requests only"
        raise invalid("system.image", need.image, allowed)
    announcements = (status.announcement for status in catalog.agents)
    fitting = frozenset(
        announcement.agent
        for announcement in announcements
        if need.image in ("", announcement.image)
        and not any(machine_mismatches(announcement, need))
    )
    return [*filters, _runs_on(fitting)]


def _on_device(device: str, catalog: Catalog) -> RowFilter:
    """Return the filter of rows planned on a `device`; the GPUs' vendors are those in `catalog`."""
    announcements = (status.announcement for status in catalog.agents)
    by_agent = {own.agent: gpu_vendors(own.hardware) for own in announcements}

    def is_on(row: Row) -> bool:
        vendors = {vendor for agent in row.agents for vendor in by_agent.get(agent, ())}
        return bool(row.device) and is_device(row.device, device, vendors)

    return is_on


def _runs_on(agents: frozenset[str]) -> RowFilter:
    return lambda row: not agents.isdisjoint(row.agents)
