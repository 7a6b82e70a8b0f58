"""An agent's hold on its name: a lease that one living start has at a time."""

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from mlscope.bus.bus import Bus, Entry
from mlscope.bus.errors import Conflict, NotPermitted
from schemas.agent import Lease
from schemas.codec import decode_body, encode_body
from schemas.errors import SchemaError
from services.agent.errors import NameTaken
from services.agent.folders import has_died

LEASES = "leases"
_MOST_NUMBERED = 64
NOTHING: Mapping[str, float] = MappingProxyType({})
_log = logging.getLogger(__name__)


class Tenure:
    """The lease of one start of an agent, from `claim` to `release`."""

    def __init__(self, bus: Bus, agent: str, incarnation: str) -> None:
        """Hold nothing yet."""
        self.agent, self.incarnation = agent, incarnation
        #: whether the lease was ours when it was last renewed
        self.is_held = False
        self._bus, self._key = bus, f"agent-{agent}"
        self._revision = 0

    async def claim(self, has_died: Callable[[str], bool], pause_s: float) -> None:
        """Take the lease, at once where nobody has it or whoever had it `has_died`.

        Another start's lease that is not renewed is waited for until it runs out, looking every
        `pause_s`. Raises NameTaken when it is renewed: its holder lives. BusError.
        """
        seen: Entry | None = None
        while not await self._put(0):
            found = await self._bus.get(LEASES, self._key)
            if found is None:
                continue
            lease = _lease_in(found)
            if has_died(lease.incarnation) and await self._put(found.revision):
                return
            if seen is None:
                _log.warning(
                    "the name %s is leased to another start on %s; waiting for it to run out",
                    self.agent,
                    lease.hostname or "an unknown host",
                )
            elif seen.revision != found.revision:
                raise NameTaken(self.agent, lease.hostname, lease.incarnation)
            seen = found
            await asyncio.sleep(pause_s)

    async def renew(self, busy: tuple[str, ...], brought_s: Mapping[str, float] = NOTHING) -> bool:
        """Renew the lease; return True when it was lost meanwhile and is had again.

        It says what keeps its holder busy, and how long files of that took to be brought. While
        another start has it, `is_held` is False. Raises BusError.
        """
        if await self._put(self._revision, busy, brought_s):
            return False
        found = await self._bus.get(LEASES, self._key)
        lease = _lease_in(found) if found else None
        if found and lease and lease.incarnation == self.incarnation:
            # Ours: the server took it, but its answer did not reach us.
            await self._put(found.revision, busy, brought_s)
            return False
        if found and lease:
            if self.is_held:
                _log.error(
                    "the lease of %s is taken by another start on %s: this one waits for it",
                    self.agent,
                    lease.hostname or "an unknown host",
                )
            self.is_held = False
            return False
        if not await self._put(0, busy, brought_s):
            return False
        _log.warning("the lease of %s was lost and is held again", self.agent)
        return True

    async def release(self) -> None:
        """Let the lease go if it is ours. Raises BusError."""
        found = await self._bus.get(LEASES, self._key)
        if found is not None and _lease_in(found).incarnation == self.incarnation:
            await self._bus.delete(LEASES, self._key)

    async def _put(
        self, revision: int, busy: tuple[str, ...] = (), brought_s: Mapping[str, float] = NOTHING
    ) -> bool:
        """Write the lease if its newest revision is that one; tell whether it is ours now."""
        lease = Lease(
            holder=self.agent,
            incarnation=self.incarnation,
            hostname=socket.gethostname(),
            busy=busy,
            brought_s=dict(brought_s),
        )
        body = encode_body(lease, json_text=True)
        try:
            self._revision = await self._bus.put(LEASES, self._key, body, revision=revision)
        except Conflict:
            return False
        self.is_held = True
        return True


@dataclass(frozen=True, slots=True)
class Claim:
    """The name an agent wants, and how it goes about it."""

    agent: str
    #: where agents of this machine keep their folders, one a name and in it one a start
    folder: Path
    #: whether a number may be added where the name is taken
    may_number: bool
    #: between two looks at a lease that another start holds
    pause_s: float

    async def carry_out(self, bus: Bus, stop: asyncio.Event) -> Tenure | None:
        """Return the lease of the name, or None when `stop` came first. Raises NameTaken."""
        claiming = asyncio.create_task(self._taken(bus))
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({claiming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return claiming.result() if claiming.done() else None
        finally:
            claiming.cancel()
            stopped.cancel()
            await asyncio.wait({claiming, stopped})

    async def _taken(self, bus: Bus) -> Tenure:
        incarnation = secrets.token_hex(8)
        refusal: NameTaken | None = None
        for number in range(1, _MOST_NUMBERED + 1):
            name = self.agent if number == 1 else f"{self.agent[:61]}-{number}"
            tenure = Tenure(bus, name, incarnation)
            try:
                await tenure.claim(partial(has_died, self.folder / name), self.pause_s)
            except NameTaken as error:
                refusal = refusal or error
                if not self.may_number:
                    break
                _log.warning("%s; trying the next number", error)
            except NotPermitted:
                # A key of the agent's own allows its name alone.
                if refusal is None:
                    raise
                break
            else:
                return tenure
        assert refusal is not None, "the loop ends with a tenure or after a refusal"
        raise refusal


def _lease_in(entry: Entry) -> Lease:
    """Return a lease; one that can't be read is held by nobody known."""
    try:
        return decode_body(Lease, entry.value or b"")
    except SchemaError:
        return Lease(holder="unknown", incarnation="")
