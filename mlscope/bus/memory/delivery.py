"""One delivered fact of a memory server."""

import logging
from typing import Protocol

from mlscope.bus.bus import Recorded
from mlscope.bus.errors import BusError
from mlscope.bus.letters import USELESS, dead_letter, opened
from mlscope.bus.memory.durable import DurableState
from mlscope.bus.memory.log import Kept
from mlscope.bus.memory.server import MemoryServer
from schemas.message import Fact

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
    """One delivery; what it says takes effect at once."""

    def __init__(
        self,
        publisher: _Publisher,
        server: MemoryServer,
        state: DurableState,
        kept: Kept,
        tries: int,
    ) -> None:
        """Have `publisher` write the dead letter, should there be one."""
        self._publisher = publisher
        self._server = server
        self._state = state
        self._kept = kept
        self._tries = tries
        self._recorded: Recorded | None = None

    async def opens(self) -> bool:
        """Tell whether the fact can be handed on; one that can't is buried."""
        try:
            kept = self._kept
            fetch = self._publisher.get_object
            self._recorded = await opened(kept.subject, kept.sequence, kept.body, fetch)
        except USELESS as error:
            await self._give_up(str(error))
            return False
        if self.tries > self._state.durable.max_deliver:
            await self._give_up(f"given up after {self.tries - 1} tries")
            return False
        return True

    async def _give_up(self, reason: str) -> None:
        _log.warning("buried %s: %s", self._kept.subject, reason)
        try:
            await self.bury(reason)
        except BusError as error:
            _log.error("no dead letter, it comes again: %s", error)

    @property
    def recorded(self) -> Recorded:
        """The fact."""
        assert self._recorded is not None, "not opened"
        return self._recorded

    @property
    def tries(self) -> int:
        """How often it was delivered, from 1."""
        return self._tries

    async def ack(self) -> None:
        """Say that it is done."""
        self._state.end(self._kept.sequence)

    async def retry(self, delay_s: float | None = None) -> None:
        """Ask for it again after a delay, or bury it past its last try."""
        durable = self._state.durable
        if self.tries >= durable.max_deliver:
            await self.bury(f"given up after {self.tries} tries")
            return
        if delay_s is None:
            delay_s = durable.backoff_s[min(self.tries, len(durable.backoff_s)) - 1]
        self._state.postpone(self._kept.sequence, self._server.clock() + delay_s)
        self._server.wake()

    async def working(self) -> None:
        """Ask for as much time again as the durable gives."""
        until_s = self._server.clock() + self._state.durable.ack_wait_s
        self._state.postpone(self._kept.sequence, until_s)

    async def bury(self, reason: str) -> None:
        """Write a dead letter, then never see it again."""
        letter, letter_id = dead_letter(
            self._publisher.name,
            reason,
            subject=self._kept.subject,
            body=self._kept.body,
            stream=self._state.durable.stream,
            sequence=self._kept.sequence,
            deliveries=self._tries,
        )
        await self._publisher.publish(letter, id=letter_id)
        self._state.end(self._kept.sequence)
