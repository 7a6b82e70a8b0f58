"""Facts to the bus: several batches at once, outcomes after every batch is stored or dropped."""

import asyncio
import contextlib
import logging
from collections import Counter

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError, StreamFull, Unreachable
from mlscope.logs import cut_cause
from mlscope.tasks import end_tasks
from schemas.batch import Batch
from schemas.message import Fact
from schemas.run import RunCompleted, RunFailed
from services.agent.host.publishing.dropped_batches import ROWS, DroppedBatches, batch_counts

_log = logging.getLogger(__name__)
_WINDOW = 16
_LEAST_PAUSE_S = 0.05
_MOST_PAUSE_S = 1.0
_FULL = "the stream is full"


class _Shipment:
    """The batches of one attempt on their way; a refused one holds up no other attempt's."""

    def __init__(self) -> None:
        self.window = asyncio.Semaphore(_WINDOW)
        self.sending: set[asyncio.Task[None]] = set()
        #: ids of batches that the stream had no room for when last tried
        self.refused: set[str] = set()
        self.is_dropping = asyncio.Event()
        self.failure: BusError | None = None
        self.reason = _FULL
        self._dropped: Counter[str] = Counter()

    def drop(self, fact: Batch, failure: BusError | None = None) -> None:
        self._dropped.update(batch_counts(fact))
        if failure is not None:
            self.failure, self.reason = failure, str(failure)

    def dropped(self) -> DroppedBatches:
        return DroppedBatches(self._dropped, self.reason)

    async def pause(self, pause_s: float) -> None:
        """Wait before the next try; less when refused batches are dropped meanwhile."""
        if self.is_dropping.is_set():
            await asyncio.sleep(pause_s)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self.is_dropping.wait()

    async def wait_until_sent(self) -> None:
        """Wait until no batch is on its way."""
        while self.sending:
            await asyncio.wait(self.sending)


class BusSink:
    """The bus as a sink. A full stream or an unreachable server holds it back until a drop.

    Batches have a window for each cause, so that attempts do not wait for each other.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._shipments: dict[str, _Shipment] = {}
        self.rows_published: Counter[str] = Counter()
        self.runs_ended: Counter[str] = Counter()
        self.dropped_batches = 0

    @property
    def pending(self) -> int:
        """How many batches are on their way."""
        return sum(len(shipment.sending) for shipment in self._shipments.values())

    @property
    def is_full(self) -> bool:
        """Whether a stream refuses batches because it has no room."""
        return any(shipment.refused for shipment in self._shipments.values())

    async def put_batch(self, fact: Batch, *, id: str, cause: str) -> bool:  # noqa: A002
        """Begin to send the batch `fact` under its `id` once there is room.

        Returns False where its `cause` was dropped.
        Raises the failure of an earlier batch of the cause, other than a full stream or an
        unreachable server.
        """
        shipment = self._shipments.setdefault(cause, _Shipment())
        await shipment.window.acquire()
        if shipment.is_dropping.is_set() or shipment.failure is not None:
            shipment.window.release()
            if shipment.failure is not None:
                raise shipment.failure
            return False
        sending = self._send(shipment, fact, id, cause)
        task = asyncio.get_running_loop().create_task(sending)
        shipment.sending.add(task)
        task.add_done_callback(shipment.sending.discard)
        return True

    async def put(self, fact: Fact, *, id: str, cause: str) -> None:  # noqa: A002
        """Publish a fact under its `id`, after every batch of its `cause` is stored or dropped."""
        shipment = self._shipments.get(cause)
        if shipment is not None:
            await shipment.wait_until_sent()
        pause_s = _LEAST_PAUSE_S
        while True:
            try:
                await self._bus.publish(fact, id=id, cause=cause)
            except (StreamFull, Unreachable):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _MOST_PAUSE_S)
            else:
                break
        if isinstance(fact, RunCompleted | RunFailed):
            self.runs_ended[fact.happened] += 1
            self.dropped_batches += fact.tally.dropped_batches
        if isinstance(fact, RunFailed):
            extra = {
                "evaluation": fact.evaluation,
                "run": fact.run,
                "attempt": fact.attempt,
                "agent": fact.agent,
                "cause": cut_cause(f"{fact.error}: {fact.message}"),
            }
            _log.warning("a run failed", extra=extra)

    async def settle(self, cause: str) -> DroppedBatches:
        """Wait until every batch of a cause is stored or dropped; return the latter, once."""
        shipment = self._shipments.get(cause)
        if shipment is None:
            return DroppedBatches(reason=_FULL)
        await shipment.wait_until_sent()
        self._shipments.pop(cause, None)
        return shipment.dropped()

    def drop_refused(self, cause: str) -> None:
        """Drop the batches of a cause that a full stream refuses, and all that follow.

        A batch being published is waited for, so that a dropped one is never stored.
        """
        self._shipments.setdefault(cause, _Shipment()).is_dropping.set()

    async def close(self) -> None:
        """Cancel what is still on its way."""
        shipments = self._shipments.values()
        await end_tasks(task for shipment in shipments for task in shipment.sending)
        self._shipments.clear()

    async def _send(self, shipment: _Shipment, fact: Batch, fact_id: str, cause: str) -> None:
        """Publish a batch; again while the stream is full or the server unreachable."""
        pause_s = _LEAST_PAUSE_S
        try:
            while True:
                try:
                    await self._bus.publish(fact, id=fact_id, cause=cause)
                except StreamFull:
                    if shipment.is_dropping.is_set():
                        shipment.drop(fact)
                        return
                    shipment.refused.add(fact_id)
                except Unreachable:
                    pass
                else:
                    self.rows_published[ROWS[fact.entity]] += fact.count
                    return
                await shipment.pause(pause_s)
                pause_s = min(2 * pause_s, _MOST_PAUSE_S)
        except BusError as error:
            shipment.drop(fact, error)
        finally:
            shipment.refused.discard(fact_id)
            shipment.window.release()
