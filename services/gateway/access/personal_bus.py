"""The gateway's bus as one person uses it: every command says who asks, by the login."""

from typing import Any, cast

from mlscope.bus.bus import Bus
from schemas.people import THE_USER, Asker
from schemas.subjects import REQUEST, asked_subject


def as_asked_by(asker: Asker, bus: Bus) -> Bus:
    """Return the `bus` on which commands are those of `asker`."""
    return cast("Bus", PersonalBus(bus, asker)) if asker.name else bus


def asker_on(bus: Bus) -> Asker:
    """Return whose commands a bus sends: a person's, or the cluster's user's."""
    return bus.asker if isinstance(bus, PersonalBus) else THE_USER


class PersonalBus:
    """A bus whose commands are those of one person; in all else it is the gateway's own."""

    def __init__(self, bus: Bus, asker: Asker) -> None:
        """Ask over `bus` in the name of `asker`."""
        self._bus = bus
        self.asker = asker

    def __getattr__(self, name: str) -> Any:
        """Return what the gateway's own bus has."""
        return getattr(self._bus, name)

    async def ask(self, subject: str, body: bytes, *, timeout_s: float = 5.0) -> bytes:
        """Send a command, `body`, to `subject` in the person's name; wait up to `timeout_s`.

        Raises NoAnswer, Unreachable.
        """
        verb = subject.removeprefix(f"{REQUEST}.")
        return await self._bus.ask(asked_subject(self.asker, verb), body, timeout_s=timeout_s)
