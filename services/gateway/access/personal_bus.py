"""The gateway's bus as one person uses it: every command says who asks, by the login."""

from typing import Any, cast

from mlscope.bus.bus import Bus
from mlscope.bus.wrapping import WrappedBus
from schemas.people import THE_USER, Asker
from schemas.subjects import REQUEST, asked_subject


def as_asked_by(asker: Asker, bus: Bus) -> Bus:
    """Return the `bus` on which commands are those of `asker`."""
    return cast("Bus", PersonalBus(bus, asker)) if asker.name else bus


def asker_on(bus: Bus) -> Asker:
    """Return whose commands a bus sends: a person's, or the cluster's user's."""
    return bus.asker if isinstance(bus, PersonalBus) else THE_USER


class PersonalBus(WrappedBus):
    """A bus whose commands are those of one person; in all else it is the gateway's own."""

    def __init__(self, bus: Bus, asker: Asker) -> None:
        """Ask over `bus` in the name of `asker`."""
        super().__init__(bus)
        self.asker = asker

    async def ask(self, subject: str, body: bytes, **options: Any) -> bytes:
        """Send a command, `body`, to `subject` in the person's name.

        `options` are those of `Bus.ask`. Raises NoAnswer, Unreachable.
        """
        verb = subject.removeprefix(f"{REQUEST}.")
        return await self._bus.ask(asked_subject(self.asker, verb), body, **options)
