"""Facts to the bus: batches several at once, outcomes after every batch is stored or let go."""

import asyncio
import contextlib
from collections import Counter

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError, StreamFull, Unreachable
from schemas.batch import Batch
from schemas.message import Fact
from services.agent.dropped import Dropped, counts_of

_WINDOW = 16
_LEAST_PAUSE_S = 0.05
_MOST_PAUSE_S = 1.0
_FULL = "the stream is full"


class _Shipment:
    """Batches of one attempt on their way; the stream's refusals of one hold up no other."""

    def __init__(self) -> None:
        self.room = asyncio.Semaphore(_WINDOW)
        self.sending: set[asyncio.Task[None]] = set()
        #: ids of batches that the stream had no room for when last tried
        self.refused: set[str] = set()
        self.let_go = asyncio.Event()
        self.failure: BusError | None = None
        self.why = _FULL
        self._given_up: Counter[str] = Counter()

    def give_up(self, fact: Batch, failure: BusError | None = None) -> None:
        self._given_up.update(counts_of(fact))
        if failure is not None:
            self.failure, self.why = failure, str(failure)

    def dropped(self) -> Dropped:
        return Dropped(self._given_up, self.why)

    async def pause(self, pause_s: float) -> None:
        """Wait before the next try; shorter when the batches are let go meanwhile."""
        if self.let_go.is_set():
            await asyncio.sleep(pause_s)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self.let_go.wait()


class BusSink:
    """The bus as a sink. A full stream or a lost server holds it back until somebody lets go.

    Batches have a window for each cause, so that attempts do not wait for each other.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._shipments: dict[str, _Shipment] = {}

    @property
    def pending(self) -> int:
        """Return how many batches are on their way."""
        return sum(len(shipment.sending) for shipment in self._shipments.values())

    @property
    def is_full(self) -> bool:
        """Say whether a stream refuses batches for want of room."""
        return any(shipment.refused for shipment in self._shipments.values())

    async def put_batch(self, fact: Batch, *, id: str, cause: str) -> bool:  # noqa: A002
        """Send a batch on its way once there is room; False when its cause was let go.

        Raises what an earlier batch of the cause failed of, other than a full stream or a lost
        server.
        """
        shipment = self._shipments.setdefault(cause, _Shipment())
        await shipment.room.acquire()
        if shipment.let_go.is_set() or shipment.failure is not None:
            shipment.room.release()
            if shipment.failure is not None:
                raise shipment.failure
            return False
        sending = self._send(shipment, fact, id, cause)
        task = asyncio.get_running_loop().create_task(sending)
        shipment.sending.add(task)
        task.add_done_callback(shipment.sending.discard)
        return True

    async def put(self, fact: Fact, *, id: str, cause: str) -> None:  # noqa: A002
        """Publish a fact after every batch of its cause is stored or given up."""
        shipment = self._shipments.get(cause)
        if shipment is not None:
            await _quiet(shipment)
        pause_s = _LEAST_PAUSE_S
        while True:
            try:
                await self._bus.publish(fact, id=id, cause=cause)
            except (StreamFull, Unreachable):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _MOST_PAUSE_S)
            else:
                return

    async def settle(self, cause: str) -> Dropped:
        """Wait until every batch of a cause is stored or given up; return the latter, once."""
        shipment = self._shipments.get(cause)
        if shipment is None:
            return Dropped(why=_FULL)
        await _quiet(shipment)
        self._shipments.pop(cause, None)
        return shipment.dropped()

    def let_go(self, cause: str) -> None:
        """Give up the batches of a cause that a full stream refuses, and all to come.

        What is under way ends first, so that a batch given up is one that is not stored.
        """
        self._shipments.setdefault(cause, _Shipment()).let_go.set()

    async def close(self) -> None:
        """Give up on what is still on its way."""
        sending = [task for shipment in self._shipments.values() for task in shipment.sending]
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
        self._shipments.clear()

    async def _send(self, shipment: _Shipment, fact: Batch, fact_id: str, cause: str) -> None:
        pause_s = _LEAST_PAUSE_S
        try:
            while not await self._is_stored(shipment, fact, fact_id, cause):
                await shipment.pause(pause_s)
                pause_s = min(2 * pause_s, _MOST_PAUSE_S)
        except BusError as error:
            shipment.give_up(fact, error)
        finally:
            shipment.refused.discard(fact_id)
            shipment.room.release()

    async def _is_stored(self, shipment: _Shipment, fact: Batch, fact_id: str, cause: str) -> bool:
        """Try once; True when nothing is left to try."""
        try:
            await self._bus.publish(fact, id=fact_id, cause=cause)
        except StreamFull:
            if not shipment.let_go.is_set():
                shipment.refused.add(fact_id)
                return False
            shipment.give_up(fact)
        except Unreachable:
            return False
        return True


async def _quiet(shipment: _Shipment) -> None:
    while shipment.sending:
        await asyncio.wait(shipment.sending)
