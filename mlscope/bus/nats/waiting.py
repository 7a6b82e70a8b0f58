"""Who waits for what on one connection: reply subjects, and whom a failure concerns."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from nats.aio.msg import Msg

from mlscope.bus.errors import BusError, NotPermitted

_DENIED = "permissions violation for "


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Somebody waits for replies to what was sent to `subject`."""

    subject: str
    receive: Callable[[Msg], None]
    fail: Callable[[BusError], None]


class WaitingRoom:
    """Reply subjects below one inbox and who waits on each."""

    def __init__(self, inbox: str) -> None:
        """`inbox` is this connection's own, below the prefix of its key."""
        self.inbox = inbox
        self.denied: set[str] = set()
        self._waiting: dict[str, _Waiting] = {}
        self._count = 0

    def enter(
        self, subject: str, receive: Callable[[Msg], None], fail: Callable[[BusError], None]
    ) -> str:
        """Return a reply subject; what comes there goes to `receive` until `leave`."""
        self._count += 1
        token = f"{self.inbox}.{self._count:x}"
        self._waiting[token] = _Waiting(subject, receive, fail)
        return token

    def leave(self, token: str) -> None:
        """Expect nothing more under a reply subject."""
        self._waiting.pop(token, None)

    async def received(self, message: Msg) -> None:
        """Hand a reply to who waits for it; nobody may, any more."""
        waiting = self._waiting.get(message.subject)
        if waiting is not None:
            waiting.receive(message)

    def fail_all(self, error: BusError) -> None:
        """Tell everyone who waits that it is in vain."""
        for waiting in list(self._waiting.values()):
            waiting.fail(error)

    def note_denial(self, text: str) -> None:
        """Read the server's complaint; who waits on that subject is told, others remembered.

        nats-py hands complaints on in lower case.
        """
        if _DENIED not in text or '"' not in text:
            return
        subject = text.split('"')[1]
        self.denied.add(subject)
        for waiting in list(self._waiting.values()):
            if waiting.subject.lower() == subject:
                waiting.fail(NotPermitted(waiting.subject))

    def is_denied(self, subject: str) -> bool:
        """Tell whether the server complained of this subject before."""
        return subject.lower() in self.denied


def first_of(
    future: asyncio.Future[Msg],
) -> tuple[Callable[[Msg], None], Callable[[BusError], None]]:
    """Return what takes the first reply, or the failure, into a future."""

    def receive(message: Msg) -> None:
        if not future.done():
            future.set_result(message)

    def fail(error: BusError) -> None:
        if not future.done():
            future.set_exception(error)

    return receive, fail
