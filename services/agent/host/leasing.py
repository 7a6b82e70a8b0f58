"""The lease of an agent's name: one living start holds it at a time."""

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Conflict, NotPermitted
from mlscope.bus.records import Entry
from schemas.agent import Lease
from schemas.encoding.codec import decode_body, encode_body
from schemas.encoding.errors import SchemaError
from services.agent.errors import NameTaken
from services.agent.host.folders import has_died

LEASES = "leases"
_MOST_LOOKS = 60
"""How often a lease is found as it was: four times a heartbeat, so for 15 heartbeats."""
_MOST_NUMBERED = 64
NO_TIMES: Mapping[str, float] = MappingProxyType({})
_log = logging.getLogger(__name__)


class HeldLease:
    """The lease of one start of an agent, from `claim` to `release`."""

    def __init__(self, bus: Bus, agent: str, incarnation: str) -> None:
        """Name the `agent` and its `incarnation`, on a `bus`; nothing is held yet."""
        self.agent, self.incarnation = agent, incarnation
        #: whether the lease was ours when it was last renewed
        self.is_held = False
        self._bus, self._key = bus, f"agent-{agent}"
        self._revision = 0

    async def claim(self, is_dead: Callable[[str], bool], pause_s: float) -> None:
        """Take the lease, at once where nobody holds it or its holder died (`is_dead` says so).

        Waits for another start's lease to run out, and looks at it every `pause_s` seconds. One
        that stays as it is for `_MOST_LOOKS` is taken: the broker's clock was set back, or the
        lease would have run out. Raises NameTaken when it is renewed, as its holder lives, and
        BusError.
        """
        last_revision: int | None = None
        looks = 0
        while not await self._put(0):
            entry = await self._bus.get(LEASES, self._key)
            if entry is None:
                continue
            lease = _lease_in(entry)
            looks += 1
            is_left = looks > _MOST_LOOKS and last_revision == entry.revision
            if (is_left or is_dead(lease.incarnation)) and await self._put(entry.revision):
                return
            if last_revision not in (None, entry.revision):
                raise NameTaken(self.agent, lease.hostname, lease.incarnation)
            if last_revision is None:
                _log.warning(
                    "the name %s is leased to another start on %s; waiting for it to run out",
                    self.agent,
                    lease.hostname or "an unknown host",
                )
            last_revision = entry.revision
            await asyncio.sleep(pause_s)

    async def renew(
        self, busy: tuple[str, ...], fetch_elapsed_s: Mapping[str, float] = NO_TIMES
    ) -> bool:
        """Renew the lease; return True when it was lost meanwhile and is held again.

        The lease names the runs that keep its holder `busy`, and how long fetching their files
        took so far. While another start holds it, `is_held` is False. Raises BusError.
        """
        if await self._put(self._revision, busy, fetch_elapsed_s):
            return False
        entry = await self._bus.get(LEASES, self._key)
        if entry is None:
            is_held_again = await self._put(0, busy, fetch_elapsed_s)
            if is_held_again:
                _log.warning("the lease of %s was lost and is held again", self.agent)
            return is_held_again
        lease = _lease_in(entry)
        if lease.incarnation == self.incarnation:
            # Ours: the server took it, but its answer did not reach us.
            await self._put(entry.revision, busy, fetch_elapsed_s)
            return False
        if self.is_held:
            _log.error(
                "the lease of %s is held by another start on %s: this one waits for it",
                self.agent,
                lease.hostname or "an unknown host",
            )
        self.is_held = False
        return False

    async def release(self) -> None:
        """Delete the lease if it is ours. Raises BusError."""
        entry = await self._bus.get(LEASES, self._key)
        if entry is not None and _lease_in(entry).incarnation == self.incarnation:
            await self._bus.delete(LEASES, self._key)

    async def _put(
        self,
        revision: int,
        busy: tuple[str, ...] = (),
        fetch_elapsed_s: Mapping[str, float] = NO_TIMES,
    ) -> bool:
        """Write the lease if `revision` is its newest; return whether it is ours now."""
        lease = Lease(
            holder=self.agent,
            incarnation=self.incarnation,
            hostname=socket.gethostname(),
            busy=busy,
            brought_s=dict(fetch_elapsed_s),
        )
        body = encode_body(lease, json_text=True)
        try:
            self._revision = await self._bus.put(LEASES, self._key, body, revision=revision)
        except Conflict:
            return False
        self.is_held = True
        return True


@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """The name an agent asks for, and how it gets it."""

    agent: str
    #: where agents of this machine keep their folders, one a name and in it one a start
    folder: Path
    #: whether a number may be added where the name is taken
    may_number: bool
    #: seconds between two looks at a lease that another start holds
    pause_s: float

    async def acquire(self, bus: Bus, stop: asyncio.Event) -> HeldLease | None:
        """Return the lease of the name, or None when `stop` came first. Raises NameTaken."""
        claiming = asyncio.create_task(self._claim_free_name(bus))
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({claiming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return claiming.result() if claiming.done() else None
        finally:
            claiming.cancel()
            stopped.cancel()
            await asyncio.wait({claiming, stopped})

    async def _claim_free_name(self, bus: Bus) -> HeldLease:
        """Return the lease of the name, or of the first numbered one that is free."""
        incarnation = secrets.token_hex(8)
        refusal: NameTaken | None = None
        for number in range(1, _MOST_NUMBERED + 1):
            name = self.agent if number == 1 else f"{self.agent[:61]}-{number}"
            lease = HeldLease(bus, name, incarnation)
            try:
                await lease.claim(partial(has_died, self.folder / name), self.pause_s)
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
                return lease
        assert refusal is not None, "the loop ends with a lease or after a refusal"
        raise refusal


def _lease_in(entry: Entry) -> Lease:
    """Return the lease of an entry; the holder of an unreadable one is unknown."""
    try:
        return decode_body(Lease, entry.value or b"")
    except SchemaError:
        return Lease(holder="unknown", incarnation="")
