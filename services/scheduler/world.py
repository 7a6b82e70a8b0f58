"""What a scheduler sees beside the log: the buckets, kept up by watching them (I/O)."""

import asyncio
import contextlib
import logging
import time

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from schemas.agent import AgentAnnounced, Lease
from schemas.codec import encode_body
from schemas.subjects import facts_of
from services.scheduler.board import Board
from services.scheduler.fleet import Fleet, Limits
from services.scheduler.mirror import CatalogMirror, LeaseMirror
from services.scheduler.shapes import Shapes

_log = logging.getLogger(__name__)
CATALOG, LEASES = "catalog", "leases"
_PATIENCE_S = 2.5
_LOOK_S = 0.02


class World:
    """The catalog, the leases and this instance's own lease."""

    def __init__(
        self, bus: Bus, board: Board, instance: str, limits: Limits, heartbeat_s: float
    ) -> None:
        """Belong to the scheduler `instance`."""
        self.instance = instance
        self.limits = limits
        self.known = asyncio.Event()
        self.leases_known = asyncio.Event()
        self.changed = asyncio.Event()
        self._moved = asyncio.Event()
        #: the look at what is known that runs, and the one that begins behind it
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self.leases = LeaseMirror(grace_s=2 * heartbeat_s)
        self._mirror = CatalogMirror()
        self._bus = bus
        self._board = board
        self._shapes = Shapes()
        self._heartbeat_s = heartbeat_s

    def fleet(self) -> Fleet:
        """Return the world as it is now, for decisions."""
        return Fleet(
            catalog=self._mirror.catalog(),
            loads=self._board.loads(),
            turns=self._board.turns(),
            issuers=self.leases.issuers(time.monotonic()) | {self.instance},
            limits=self.limits,
            brought_s=self.leases.brought_s(),
            shapes=self._shapes,
        )

    async def watch_catalog(self) -> None:
        """Take in the catalog for ever; `changed` is set at each change."""
        async for entry in self._bus.watch(CATALOG):
            if entry is None:
                self.known.set()
                continue
            if self._mirror.take(entry):
                self.changed.set()
            self._moved.set()

    async def catch_up(self) -> None:
        """Return once the catalog here says what was known when asked, or after some seconds.

        An agent is in the bucket once the registry has acknowledged what it said. Those who ask
        at a time wait together: for the next look, as a running one began before they asked.
        Raises BusError.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._look_behind(self._running))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await asyncio.shield(self._next)

    async def _look_behind(self, running: "asyncio.Task[None] | None") -> None:
        """Look once the running look has ended, however it did."""
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        await self._look()

    async def _look(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._until_shown()
                ahead = await self._bus.changes(CATALOG, after=self._mirror.revision)
                wanted = self._mirror.lacks(ahead)
                while self._mirror.revision < wanted:
                    self._moved.clear()
                    await self._moved.wait()

    async def _until_shown(self) -> None:
        """Return once the registry has shown what was said of agents by now."""
        shown = await self._bus.acknowledged("registry")
        said = await self._bus.read(facts_of(AgentAnnounced), after=shown)
        while said and shown < said[-1].sequence:
            await asyncio.sleep(_LOOK_S)
            shown = await self._bus.acknowledged("registry")

    async def watch_leases(self) -> None:
        """Take in the leases for ever."""
        async for entry in self._bus.watch(LEASES):
            if entry is None:
                self.leases_known.set()
            else:
                self.leases.take(entry, time.monotonic())

    async def hold_lease(self) -> None:
        """Renew this instance's lease for ever."""
        while True:
            try:
                await self.renew()
            except BusError as error:
                _log.warning("the lease was not renewed: %s", error)
            await asyncio.sleep(self._heartbeat_s)

    async def renew(self) -> None:
        """Say that this instance lives, whatever issues it has."""
        lease = Lease(holder=self.instance, incarnation=self.instance)
        await self._bus.put(LEASES, self._lease_key(), encode_body(lease, json_text=True))

    async def release(self) -> None:
        """Say that this instance is no more."""
        with contextlib.suppress(BusError):
            await self._bus.delete(LEASES, self._lease_key())

    def _lease_key(self) -> str:
        return f"issuer-{self.instance}"
