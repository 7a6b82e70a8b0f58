"""Errors of the scheduler, and the refusals that it answers."""

from collections.abc import Iterable

from schemas.encoding.faults import abbreviate
from schemas.request import AgentReason, Refused

_MOST_NAMES = 10


class SchedulerError(Exception):
    """The scheduler cannot do that."""


class RequestRefused(SchedulerError):
    """A request cannot be met; `refused` is the answer to its sender."""

    def __init__(self, refused: Refused) -> None:
        """Keep the answer."""
        self.refused = refused
        super().__init__(f"{refused.error}: {refused.message}")


class IssuerFailed(SchedulerError):
    """A remote load could not be issued to its end."""


class Undecided(SchedulerError):
    """Other schedulers recorded decisions first, again and again."""


def invalid(field: str, found: object, allowed: str) -> RequestRefused:
    """Return the refusal of a `field` whose value `found` is not among those `allowed`."""
    message = f"{field}: found {abbreviate(found)}, allowed: {allowed}"
    return RequestRefused(
        Refused(error="invalid", message=message, field=field, found=str(found), allowed=allowed)
    )


def unknown_parameter(field: str, found: object, available: str) -> RequestRefused:
    """Return the refusal of a `field` that is no parameter.

    `found` is its value, `available` names the parameters there are, with commas between.
    """
    message = (
        f"{field}: found {abbreviate(found)}, but there is no such parameter; "
        f"known parameters: {available}"
    )
    return RequestRefused(
        Refused(error="invalid", message=message, field=field, found=str(found), allowed=available)
    )


def unknown(
    field: str, name: str, similar: Iterable[str], available: Iterable[str] = ()
) -> RequestRefused:
    """Return the refusal of a `field` with an unknown `name`.

    It has the `similar` names, or where there are none those `available`, unless they are many.
    """
    message = f"{field}: nothing is named {abbreviate(name)}"
    alternatives = sorted(set(available))
    if allowed := ", ".join(similar):
        message += f"; similar: {allowed}"
    elif len(alternatives) > _MOST_NAMES:
        message += f", and none of {len(alternatives)} names is like it"
    elif allowed := ", ".join(alternatives):
        message += f"; known names: {allowed}"
    return RequestRefused(
        Refused(error="unknown", message=message, field=field, found=name, allowed=allowed)
    )


def unsatisfiable(reasons: tuple[AgentReason, ...]) -> RequestRefused:
    """Return the refusal of a request that no agent fits, with the reason for each agent."""
    texts = "; ".join(f"{reason.agent}: {reason.reason}" for reason in reasons[:20])
    message = f"no agent fits: {texts}" if texts else "no agent is known"
    return RequestRefused(Refused(error="unsatisfiable", message=message, agents=reasons))
