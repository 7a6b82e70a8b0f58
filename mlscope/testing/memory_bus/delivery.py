"""One delivered fact of a memory server."""

import logging
from typing import Protocol

from mlscope.bus.envelopes import UNDECODABLE, dead_letter, decode_recorded
from mlscope.bus.errors import BusError
from mlscope.bus.records import Recorded
from mlscope.testing.memory_bus.durable import DurableState
from mlscope.testing.memory_bus.log import MemoryMessage
from mlscope.testing.memory_bus.server import MemoryServer
from schemas.message import Fact
from schemas.subjects import place_of

_log = logging.getLogger(__name__)


class _Publisher(Protocol):
    name: str

    async def publish(self, fact: Fact, *, id: str) -> int:  # noqa: A002
        """Record a fact."""
        ...

    async def get_object(self, subject: str, name: str, sha256: str) -> bytes:
        """Return a large payload."""
        ...


class MemoryDelivery:
    """One delivery of a fact; acknowledgements take effect at once."""

    def __init__(
        self,
        publisher: _Publisher,
        server: MemoryServer,
        state: DurableState,
        message: MemoryMessage,
        tries: int,
    ) -> None:
        """Deliver `message` of the durable `state` on `server`, for the time number `tries`.

        `publisher` publishes the dead letter if the message is buried.
        """
        self._publisher = publisher
        self._server = server
        self._state = state
        self._message = message
        self._tries = tries
        self._recorded: Recorded | None = None

    async def decode(self) -> bool:
        """Decode the fact, or bury it if it can't be decoded; tell whether it was decoded."""
        try:
            message = self._message
            fetch = self._publisher.get_object
            self._recorded = await decode_recorded(
                message.subject,
                message.sequence,
                message.body,
                fetch,
                stored_ns=message.stored_ns,
            )
        except UNDECODABLE as error:
            await self._give_up(str(error))
            return False
        if self.tries > self._state.durable.max_deliver:
            await self._give_up(f"given up after {self.tries - 1} tries")
            return False
        return True

    async def _give_up(self, reason: str) -> None:
        subject = self._message.subject
        _log.warning("buried %s: %s", subject, reason, extra=place_of(subject))
        try:
            await self.bury(reason)
        except BusError as error:
            _log.error("no dead letter, it will be retried: %s", error)

    @property
    def recorded(self) -> Recorded:
        """The fact."""
        assert self._recorded is not None, "not opened"
        return self._recorded

    @property
    def tries(self) -> int:
        """The number of deliveries of this fact so far, from 1."""
        return self._tries

    async def ack(self) -> None:
        """Acknowledge the fact."""
        self._state.end(self._message.sequence)

    async def retry(self, delay_s: float | None = None) -> None:
        """Request redelivery after a delay, or bury the fact after its last try."""
        durable = self._state.durable
        if self.tries >= durable.max_deliver:
            await self.bury(f"given up after {self.tries} tries")
            return
        if delay_s is None:
            delay_s = durable.backoff_s[min(self.tries, len(durable.backoff_s)) - 1]
        self._state.postpone(self._message.sequence, self._server.clock() + delay_s)
        self._server.wake()

    async def in_progress(self) -> None:
        """Restart the durable's acknowledgement time."""
        until_s = self._server.clock() + self._state.durable.ack_wait_s
        self._state.postpone(self._message.sequence, until_s)

    async def bury(self, reason: str) -> None:
        """Record a dead letter and end the deliveries of this fact."""
        letter, letter_id = dead_letter(
            self._publisher.name,
            reason,
            subject=self._message.subject,
            body=self._message.body,
            stream=self._state.durable.stream,
            sequence=self._message.sequence,
            deliveries=self._tries,
        )
        await self._publisher.publish(letter, id=letter_id)
        self._state.end(self._message.sequence)
