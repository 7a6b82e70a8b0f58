"""Follows the buckets `catalog` and `leases`, and holds this scheduler's own lease (I/O)."""

import asyncio
import contextlib
import logging
import time

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from schemas.agent import AgentAnnounced, Lease
from schemas.encoding.codec import encode_body
from schemas.subjects import facts_of
from services.scheduler.bucket_views import CatalogView, LeaseView
from services.scheduler.evaluation.index import EvaluationIndex
from services.scheduler.placement.fleet import Fleet, Limits
from services.scheduler.shared_load_shapes import SharedLoadShapes

_log = logging.getLogger(__name__)
CATALOG, LEASES = "catalog", "leases"
_EXPIRY_SEEN_S = 2.0
"""Within so long a watch of the bucket delivers that a lease expired."""
_CATCH_UP_S = 2.5
_POLL_S = 0.02


class FleetWatch:
    """The catalog, the leases and this instance's own lease.

    `catalog_known` and `leases_known` are set once a bucket was read whole, `changed` at each
    change of the catalog.
    """

    def __init__(
        self, bus: Bus, index: EvaluationIndex, instance: str, limits: Limits, heartbeat_s: float
    ) -> None:
        """Watch `bus` for the scheduler `instance`.

        `index` knows the agents' loads and turns, `limits` are handed on to decisions, and the
        own lease is renewed every `heartbeat_s`.
        """
        self.instance = instance
        self.limits = limits
        self.catalog_known = asyncio.Event()
        self.leases_known = asyncio.Event()
        self.changed = asyncio.Event()
        lease_s = limits.lease_ttl_s + _EXPIRY_SEEN_S
        self.leases = LeaseView(grace_s=2 * heartbeat_s, lease_s=lease_s)
        self._bus = bus
        self._index = index
        self._heartbeat_s = heartbeat_s
        self._catalog = CatalogView()
        self._entry_taken = asyncio.Event()
        self._shapes = SharedLoadShapes()
        #: the running task that catches up, and the one that starts after it
        self._catching_up: asyncio.Task[None] | None = None
        self._next_catch_up: asyncio.Task[None] | None = None

    def fleet(self) -> Fleet:
        """Return the fleet as it is known now."""
        return Fleet(
            catalog=self._catalog.catalog(),
            loads=self._index.loads(),
            turns=self._index.turns(),
            issuers=self.leases.issuers(time.monotonic()) | {self.instance},
            limits=self.limits,
            fetching_s=self.leases.fetching_s(),
            shapes=self._shapes,
        )

    async def watch_catalog(self) -> None:
        """Follow the catalog for ever."""
        async for entry in self._bus.watch(CATALOG):
            if entry is None:
                self.catalog_known.set()
                continue
            if self._catalog.take(entry):
                self.changed.set()
            self._entry_taken.set()

    async def catch_up(self) -> None:
        """Return once the catalog here has all that was published by now, or after some seconds.

        An agent is in the bucket once the registry has acknowledged its announcement. Concurrent
        callers wait together for the next catch-up: a running one began before they asked.
        Raises BusError.
        """
        if self._next_catch_up is None:
            self._next_catch_up = asyncio.create_task(self._catch_up_after(self._catching_up))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP_S):
                await asyncio.shield(self._next_catch_up)

    async def _catch_up_after(self, running: "asyncio.Task[None] | None") -> None:
        """Catch up once the `running` task has ended, however it did."""
        if running is not None:
            await asyncio.wait([running])
        self._catching_up, self._next_catch_up = self._next_catch_up, None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP_S):
                acknowledged = await self._bus.acknowledged("registry")
                announced = await self._bus.read(facts_of(AgentAnnounced), after=acknowledged)
                while announced and acknowledged < announced[-1].sequence:
                    await asyncio.sleep(_POLL_S)
                    acknowledged = await self._bus.acknowledged("registry")
                changes = await self._bus.changes(CATALOG, after=self._catalog.revision)
                newest = self._catalog.newest_missing(changes)
                while self._catalog.revision < newest:
                    self._entry_taken.clear()
                    await self._entry_taken.wait()

    async def watch_leases(self) -> None:
        """Follow the leases for ever."""
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
        """Renew this instance's lease. Raises BusError."""
        lease = Lease(holder=self.instance, incarnation=self.instance)
        await self._bus.put(LEASES, self._lease_key(), encode_body(lease, json_text=True))

    async def release(self) -> None:
        """Give up this instance's lease."""
        with contextlib.suppress(BusError):
            await self._bus.delete(LEASES, self._lease_key())

    def _lease_key(self) -> str:
        return f"issuer-{self.instance}"
