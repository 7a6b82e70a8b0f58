"""`mlscope audit`: who did what and when, as the log says."""

import argparse
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from cli import exits
from cli.inputs.connection import provisioner_settings
from cli.printing.output import Rows, write_rows
from mlscope.evaluation.status import model_name
from schemas.agent import AgentDrained, AgentResumed, AgentRevoked
from schemas.evaluation import EvaluationCancelled, EvaluationRequested
from schemas.manifest import ManifestPublished, ManifestWithdrawn
from schemas.message import Fact
from schemas.people import PersonAdded, PersonRefused, PersonRemoved
from schemas.price import AgentPriced
from schemas.subjects import ROOT, facts_of

_COLUMNS = ("at", "who", "did", "what", "details")
_OPERATOR = "operator"
_USER = "the cluster's user"
_FILTERS = (
    f"{ROOT}.evaluation.*.requested",
    f"{ROOT}.evaluation.*.cancelled",
    facts_of(AgentDrained),
    facts_of(ManifestPublished),
    facts_of(PersonAdded),
)

_Deed = tuple[str, str, str]
"""Who, to what, and in detail."""


def _limits(fact: PersonAdded) -> str:
    limits = {"at most": fact.at_most, "a day": fact.per_day}
    return ", ".join([fact.role, *(f"{name}: {limit}" for name, limit in limits.items() if limit)])


def _price(fact: AgentPriced) -> str:
    dollars = fact.dollars_per_hour
    return "no price" if dollars is None else f"${dollars:g} an hour"


_ACTIONS: Mapping[type[Fact], Callable[[Any], _Deed]] = MappingProxyType(
    {
        EvaluationRequested: lambda fact: (
            fact.requested_by or _USER,
            fact.evaluation,
            model_name(fact.request),
        ),
        EvaluationCancelled: lambda fact: (
            fact.cancelled_by or _USER,
            fact.evaluation,
            fact.reason,
        ),
        PersonRefused: lambda fact: (fact.person, fact.verb, fact.reason),
        PersonAdded: lambda fact: (_OPERATOR, fact.person, _limits(fact)),
        PersonRemoved: lambda fact: (_OPERATOR, fact.person, ""),
        AgentDrained: lambda fact: (_OPERATOR, fact.agent, ""),
        AgentResumed: lambda fact: (_OPERATOR, fact.agent, ""),
        AgentRevoked: lambda fact: (_OPERATOR, fact.agent, ""),
        AgentPriced: lambda fact: (fact.set_by or _USER, fact.agent, _price(fact)),
        # Without a name: the cluster's user, or the registry that publishes what is shipped.
        ManifestPublished: lambda fact: (
            fact.published_by,
            f"{fact.manifest.name}:{fact.manifest.version}",
            fact.manifest.kind,
        ),
        ManifestWithdrawn: lambda fact: (
            fact.withdrawn_by or _USER,
            f"{fact.name}:{fact.version}",
            fact.kind,
        ),
    }
)
"""What counts as an action: who did it, to what, and more about it."""


async def audit(arguments: argparse.Namespace) -> int:
    """List the newest actions, oldest first; `--by` lists those of one person alone."""
    from mlscope.bus.nats import connect

    async with connect(provisioner_settings(arguments.data), "provisioner") as bus:
        recorded = [fact for subject in _FILTERS for fact in await bus.read(subject)]
    actions = sorted(
        (fact for fact in recorded if type(fact.fact) in _ACTIONS),
        key=lambda action: action.envelope.time_ns,
    )
    rows: list[tuple[object, ...]] = []
    for action in actions:
        person, subject, details = _ACTIONS[type(action.fact)](action.fact)
        at = datetime.fromtimestamp(action.envelope.time_ns / 1e9, UTC)
        name = action.fact.schema_name()
        rows.append((at.isoformat(timespec="seconds"), person, name, subject, details))
    if arguments.by:
        rows = [row for row in rows if row[1] == arguments.by]
    write_rows(Rows(_COLUMNS, tuple(rows[-arguments.limit :])), arguments.output)
    return exits.OK
