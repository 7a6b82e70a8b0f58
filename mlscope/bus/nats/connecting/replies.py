"""The reply subjects of one connection, and the callers that wait on them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from nats.aio.msg import Msg

from mlscope.bus.errors import BusError, NotPermitted

_DENIED = "permissions violation for "
_MOST_DENIED = 256
"""Denied subjects that are remembered: what is denied may have a new name each time."""


@dataclass(frozen=True, slots=True)
class _Waiter:
    """A caller that waits for replies to a request sent to `subject`."""

    subject: str
    receive: Callable[[Msg], None]
    fail: Callable[[BusError], None]


class ReplySubjects:
    """The reply subjects below one inbox, each with its waiting caller."""

    def __init__(self, inbox: str) -> None:
        """Use `inbox`, which belongs to this connection alone, below its key's inbox prefix."""
        self.inbox = inbox
        self._answers = f"{inbox}.*".lower()
        #: in the order in which they were denied
        self.denied: dict[str, None] = {}
        self._waiting: dict[str, _Waiter] = {}
        self._count = 0

    def enter(
        self, subject: str, receive: Callable[[Msg], None], fail: Callable[[BusError], None]
    ) -> str:
        """Return a new reply subject for a request to `subject`.

        Replies are passed to `receive`, a failure to `fail`, until `leave`. Where the inbox is
        denied, the call fails at once.
        """
        self._count += 1
        token = f"{self.inbox}.{self._count:x}"
        self._waiting[token] = _Waiter(subject, receive, fail)
        if self._answers in self.denied:
            fail(NotPermitted(subject))
        return token

    def leave(self, token: str) -> None:
        """Stop expecting replies on a reply subject."""
        self._waiting.pop(token, None)

    async def received(self, message: Msg) -> None:
        """Pass a reply to its waiting caller; ignore a reply that nobody expects any more."""
        waiter = self._waiting.get(message.subject)
        if waiter is not None:
            waiter.receive(message)

    def fail_all(self, error: BusError) -> None:
        """Fail every waiting caller with `error`; the next connection may have its inbox again."""
        self.denied.pop(self._answers, None)
        for waiter in list(self._waiting.values()):
            waiter.fail(error)

    def note_denial(self, text: str) -> bool:
        """Read a permission error of the server: fail the callers that wait on its subject.

        Without the inbox none is answered: all fail, later ones too. The subject is remembered for
        `is_denied`. Returns whether callers are told. nats-py passes errors on in lower case.
        """
        if _DENIED not in text or '"' not in text:
            return False
        subject = text.split('"')[1]
        self.denied[subject] = None
        if len(self.denied) > _MOST_DENIED:
            del self.denied[next(iter(self.denied))]
        is_inbox = subject == self._answers
        failing = [
            waiter
            for waiter in self._waiting.values()
            if is_inbox or waiter.subject.lower() == subject
        ]
        for waiter in failing:
            waiter.fail(NotPermitted(waiter.subject))
        return is_inbox or bool(failing)

    def is_denied(self, subject: str) -> bool:
        """Tell whether the server has denied this subject before."""
        return subject.lower() in self.denied


def first_of(
    future: asyncio.Future[Msg],
) -> tuple[Callable[[Msg], None], Callable[[BusError], None]]:
    """Return the callbacks `receive` and `fail` that set a future to the first reply or error."""

    def receive(message: Msg) -> None:
        if not future.done():
            future.set_result(message)

    def fail(error: BusError) -> None:
        if not future.done():
            future.set_exception(error)

    return receive, fail
