"""`mlscope audit`: who did what and when, as the log says."""

import argparse
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from cli import exits
from cli.inputs.connection import provisioner_settings
from cli.printing.output import Rows, write_rows
from mlscope.bus.records import Recorded, Unreadable
from mlscope.evaluation.status import model_name
from schemas.agent import AgentDrained, AgentInvited, AgentJoined, AgentResumed, AgentRevoked
from schemas.evaluation import EvaluationCancelled, EvaluationRequested
from schemas.manifest import ManifestPublished, ManifestWithdrawn
from schemas.message import Fact
from schemas.people import PersonAdded, PersonRefused, PersonRemoved
from schemas.price import AgentPriced
from schemas.subjects import ROOT, facts_of

_COLUMNS = ("at", "who", "did", "what", "details")
# Names that no person can have: they have a space.
_OPERATOR = "the cluster's operator"
_USER = "the cluster's user"
_UNKNOWN = "not known"
"""Who did what can't be read. No person has this name, which has a space."""
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


def _clock(epoch_ns: int) -> str:
    """Return a time of UTC, to the second."""
    return datetime.fromtimestamp(epoch_ns / 1e9, UTC).isoformat(timespec="seconds")


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
        AgentInvited: lambda fact: (_OPERATOR, fact.agent, f"until {_clock(fact.ends_ns)}"),
        AgentJoined: lambda fact: (f"agent {fact.agent}", fact.agent, ""),
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

_ACTED_BY_OPERATOR = (
    PersonAdded,
    PersonRemoved,
    AgentInvited,
    AgentDrained,
    AgentResumed,
    AgentRevoked,
)
_Action = tuple[int, str, _Deed]
"""When (epoch nanoseconds), the name of the fact, and the deed."""


def _in_fact(recorded: Recorded) -> _Action | None:
    """Return the action that a fact of the log is; None for one that is none."""
    fact = recorded.fact
    if type(fact) not in _ACTIONS:
        return None
    return recorded.envelope.time_ns, fact.schema_name(), _ACTIONS[type(fact)](fact)


def _in_subject(unreadable: Unreadable) -> _Action | None:
    """Return what the subject of a message says of an action; None if it is of none.

    Without the message's body, people are known where the subject names them alone.
    """
    name, what = _named(unreadable.subject)
    types = {action.schema_name(): action for action in _ACTIONS}
    if name not in types:
        return None
    who = _OPERATOR if types[name] in _ACTED_BY_OPERATOR else _UNKNOWN
    if types[name] is PersonRefused:
        who = what
    elif types[name] is AgentJoined:
        who = f"agent {what}"
    return unreadable.stored_ns, name, (who, what, f"cannot be read: {unreadable.reason}")


def _named(subject: str) -> tuple[str, str]:
    """Return the name of the fact on a `subject`, and the token of what it is about."""
    *_, entity, what, happened = subject.split(".")
    return f"{entity}.{happened}", what


async def audit(arguments: argparse.Namespace) -> int:
    """List the newest actions, oldest first; `--by` lists those of one person alone.

    Of a message that can't be read, the list has what its subject says.
    """
    from mlscope.bus.nats import connect

    unreadable: list[Unreadable] = []
    async with connect(provisioner_settings(arguments.data), "provisioner") as bus:
        recorded = [
            fact for subject in _FILTERS for fact in await bus.read(subject, unreadable=unreadable)
        ]
    candidates = (*map(_in_fact, recorded), *map(_in_subject, unreadable))
    actions = sorted(
        (action for action in candidates if action is not None), key=lambda action: action[0]
    )
    rows: list[tuple[object, ...]] = [
        (_clock(time_ns), person, name, subject, details)
        for time_ns, name, (person, subject, details) in actions
    ]
    if arguments.by:
        rows = [row for row in rows if row[1] == arguments.by]
    write_rows(Rows(_COLUMNS, tuple(rows[-arguments.limit :])), arguments.output)
    return exits.OK
