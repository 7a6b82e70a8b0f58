"""Which evaluations a list shows: the constraints of requests, asked of what was planned. Pure."""

from collections.abc import Callable, Iterable

from packaging.specifiers import SpecifierSet

from mlscope.manifests.constraints import constraint_of, satisfies
from mlscope.manifests.errors import BadConstraint
from schemas.agent import Announcement
from schemas.request import ListEvaluations, SystemNeed
from schemas.status import AgentStatus, Catalog
from services.scheduler.described import OF_MANIFEST
from services.scheduler.errors import invalid
from services.scheduler.listing import Row
from services.scheduler.matching import is_device, machine_against
from services.scheduler.resolving import described_system
from services.scheduler.state import EvaluationState
from services.scheduler.status import model_name

Check = Callable[[Row], bool]


def row_of(state: EvaluationState) -> Row:
    """Return what an evaluation is listed by; before it is planned much of it is not known."""
    request, plan = state.request, state.plan
    subject = plan.subject if plan else None
    planned = (session.agent for session in plan.sessions) if plan else ()
    return Row(
        requested_ns=state.requested_ns,
        model=model_name(request),
        state=state.state,
        version=subject.model.version if subject else "",
        framework=subject.framework if subject else "",
        framework_version=subject.framework_version if subject else "",
        device=subject.device if subject else "",
        agents=frozenset((*planned, *(run.agent for run in state.runs.values()))),
        labels=frozenset(request.labels.items()) if request else frozenset(),
    )


def checks_of(wish: ListEvaluations, catalog: Catalog) -> list[Check]:
    """Return what a row must pass beside its model's name and its state.

    What the system must be is asked of the agents known now, the device of the plan; what is not
    known fits no constraint. Raises RequestRefused.
    """
    return [
        *_version_checks(wish),
        *_framework_checks(wish),
        *_system_checks(described_system(wish.system, catalog), catalog.agents),
        *([_has_any(frozenset(wish.agents))] if wish.agents else ()),
        *([_has_labels(frozenset(wish.labels.items()))] if wish.labels else ()),
    ]


def _version_checks(wish: ListEvaluations) -> list[Check]:
    constraint = _constraint(wish.model.partition(":")[2], "model")
    if not constraint:
        return []
    asked = wish.model.lower()
    return [
        lambda row: (
            row.model.lower() == asked or (bool(row.version) and satisfies(row.version, constraint))
        )
    ]


def _framework_checks(wish: ListEvaluations) -> list[Check]:
    need = wish.framework
    if need is None:
        return []
    name, constraint = need.name.strip().lower(), _constraint(need.version, "framework.version")
    checks: list[Check] = [lambda row: row.framework.lower() == name] if name else []
    if constraint:
        checks.append(
            lambda row: bool(row.framework_version) and satisfies(row.framework_version, constraint)
        )
    return checks


def _constraint(text: str, field: str) -> SpecifierSet:
    try:
        return constraint_of(text)
    except BadConstraint as error:
        raise invalid(field, text, ">=1.12.0 <2.0, ==1.15.* or 1.15") from error


def _system_checks(need: SystemNeed, known: Iterable[AgentStatus]) -> list[Check]:
    checks: list[Check] = []
    if need.device.strip():
        checks.append(lambda row: bool(row.device) and is_device(row.device, need.device))
    if need.model_copy(update={"device": ""}) != SystemNeed():
        told = (status.announcement for status in known)
        checks.append(_has_any(frozenset(each.agent for each in told if _is_such(each, need))))
    return checks


def _is_such(agent: Announcement, need: SystemNeed) -> bool:
    if need.image == OF_MANIFEST:
        raise invalid("system.image", need.image, "an image by its name: lists know no others")
    return need.image in ("", agent.image) and not any(machine_against(agent, need))


def _has_any(agents: frozenset[str]) -> Check:
    return lambda row: not agents.isdisjoint(row.agents)


def _has_labels(labels: frozenset[tuple[str, str]]) -> Check:
    return lambda row: labels <= row.labels
