"""Why the scheduler can't do what it was asked."""

from collections.abc import Iterable

from schemas.faults import short
from schemas.request import AgentReason, Refused


class SchedulerError(Exception):
    """The scheduler can't do that."""


class RequestRefused(SchedulerError):
    """A request can't be met; `refused` is the answer to whoever asked."""

    def __init__(self, refused: Refused) -> None:
        """Carry the answer."""
        self.refused = refused
        super().__init__(f"{refused.error}: {refused.message}")


class IssuerFailed(SchedulerError):
    """A remote load could not be issued to its end."""


class Undecided(SchedulerError):
    """Others wrote first again and again."""


def invalid(field: str, found: object, allowed: str) -> RequestRefused:
    """Return the refusal of a field's value."""
    message = f"{field}: found {short(found)}, allowed: {allowed}"
    return RequestRefused(
        Refused(error="invalid", message=message, field=field, found=str(found), allowed=allowed)
    )


def unknown(field: str, found: str, near: Iterable[str]) -> RequestRefused:
    """Return the refusal of a name nobody knows, with the names nearest to it."""
    allowed = ", ".join(near)
    message = f"{field}: nothing is called {short(found)}"
    if allowed:
        message += f"; near it: {allowed}"
    return RequestRefused(
        Refused(error="unknown", message=message, field=field, found=found, allowed=allowed)
    )


def unsatisfiable(reasons: tuple[AgentReason, ...]) -> RequestRefused:
    """Return the refusal that says, agent by agent, why none fits."""
    each = "; ".join(f"{reason.agent}: {reason.reason}" for reason in reasons[:20])
    message = f"no agent fits: {each}" if each else "no agent is known"
    return RequestRefused(Refused(error="unsatisfiable", message=message, agents=reasons))
