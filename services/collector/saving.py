"""I/O: stores the batches of a durable as rows, and prepares the next batches meanwhile.

Committed batches are acknowledged. While the database is away, batches are kept in progress instead
of being redelivered: tries count problems of a batch, not of the database.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar, cast

from mlscope.bus.bus import Bus, Delivery
from mlscope.bus.errors import BusError
from mlscope.bus.records import Recorded
from schemas.batch import Batch
from schemas.subjects import agent_of, place_of
from schemas.values.identity import run_key
from services.collector.errors import (
    DatabaseAway,
    DatabaseFull,
    ForeignFact,
    MisshapenBatch,
    RefusedRows,
    UnknownEvaluation,
    UnstartedAttempt,
)
from services.collector.evaluations import Evaluations
from services.collector.rows import batch_key_of, layout_of, rows_of
from services.collector.store import Prepared, Store

_log = logging.getLogger(__name__)
_MOST_DELAY_S = 5.0
_LAST_COMMIT_S = 10.0
_ALIVE_S = 10.0
TRIES_FOR_UNKNOWN = 30

PreparedDelivery = tuple[Delivery, Prepared]
P = ParamSpec("P")
T = TypeVar("T")


def prepared_of(batch: Batch, requested_ns: int) -> Prepared:
    """Return a batch in the form for the store. Raises MisshapenBatch."""
    key = run_key(batch.evaluation, batch.run, batch.attempt)
    layout = layout_of(batch)
    names = getattr(batch, "name_ids", ()), getattr(batch, "name_texts", ())
    if len(names[0]) != len(names[1]):
        raise MisshapenBatch(f"{len(names[1])} texts for {len(names[0])} names")
    return Prepared(
        marker=(key, layout.kind, batch.sequence),
        table=layout.table,
        count=batch.count,
        rows=rows_of(batch, batch_key_of(batch, key, requested_ns)),
        names=tuple(zip(*names, strict=True)),
    )


async def patiently(
    deliveries: Sequence[Delivery], act: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Run `act` in a thread, with its arguments, and retry while the database is away.

    The `deliveries` are kept in progress meanwhile. Raises the other errors of `act`.
    """
    delay_s = 0.1
    while True:
        try:
            return await asyncio.to_thread(act, *args, **kwargs)
        except DatabaseAway as error:
            level = logging.ERROR if isinstance(error, DatabaseFull) else logging.WARNING
            _log.log(level, "rows wait, retrying in %.1f s: %s", delay_s, error)
        for delivery in deliveries:
            await delivery.in_progress()
        await asyncio.sleep(delay_s)
        delay_s = min(delay_s * 2, _MOST_DELAY_S)


async def _retry_soon(delivery: Delivery) -> None:
    """Request redelivery of a batch soon; after its last try it is buried instead."""
    with contextlib.suppress(BusError):
        await delivery.retry(1.0)


class Saver:
    """Stores the batches of one durable, with one transaction at a time in each store."""

    def __init__(
        self,
        bus: Bus,
        stores: Sequence[Store],
        evaluations: Evaluations,
        stored: Callable[[Sequence[Recorded]], None],
        alive_s: float = _ALIVE_S,
    ) -> None:
        """Store the batches delivered on `bus` in `stores`, checked against `evaluations`.

        `stored` is called after each commit with its batches. Batches that wait for a store are
        kept in progress every `alive_s` seconds.
        """
        self._alive_s = alive_s
        self._bus = bus
        self._stores = stores
        self._free: asyncio.Queue[Store] = asyncio.Queue()
        self._evaluations = evaluations
        self._stored = stored
        self.rows = 0
        self.buried = 0
        self._full_at_s = -math.inf

    async def run(self, durable: str, batch: int) -> None:
        """Store up to `batch` deliveries of `durable` at a time, without end.

        While transactions commit, the next batches are fetched and encoded. A cancellation takes
        effect after the current commits.
        """
        for store in self._stores:
            self._free.put_nowait(store)
        async with asyncio.TaskGroup() as commits:
            async for deliveries in self._bus.deliveries(durable, batch=batch):
                if len(deliveries) >= batch:
                    self._full_at_s = time.monotonic()
                candidates = [await self._prepare(delivery) for delivery in deliveries]
                ready = [prepared for prepared in candidates if prepared is not None]
                if ready:
                    store = await self._turn([delivery for delivery, _ in ready])
                    commits.create_task(self._commit_apart(ready, store))

    def was_behind(self, within_s: float) -> bool:
        """Tell whether a fetch returned a full batch within the last `within_s` seconds."""
        return time.monotonic() - self._full_at_s < within_s

    def close(self) -> None:
        """Close the connections."""
        for store in self._stores:
            store.close()

    async def _prepare(self, delivery: Delivery) -> PreparedDelivery | None:
        batch = cast("Batch", delivery.recorded.fact)
        place = {"evaluation": batch.evaluation, "run": batch.run, "agent": batch.agent}
        try:
            start_ns = await self._evaluations.start_of(batch.evaluation)
            await self._evaluations.check_speaker(batch)
            return delivery, prepared_of(batch, start_ns)
        except (MisshapenBatch, ForeignFact) as error:
            await self._bury(delivery, str(error))
        except (UnknownEvaluation, UnstartedAttempt) as error:
            if delivery.tries >= TRIES_FOR_UNKNOWN:
                await self._bury(delivery, str(error))
            else:
                await _retry_soon(delivery)
        except BusError as error:
            _log.warning("evaluation %s cannot be read: %s", batch.evaluation, error, extra=place)
            await _retry_soon(delivery)
        except MemoryError:
            _log.error(
                "no memory for a batch of %s; redelivery follows", batch.evaluation, extra=place
            )
            await _retry_soon(delivery)
        except Exception as error:  # noqa: BLE001 (whatever a stranger sends, the loop goes on)
            await self._bury(delivery, f"{type(error).__name__}: {error}")
        return None

    async def _turn(self, deliveries: Sequence[Delivery]) -> Store:
        """Return a store once one is free; keep the deliveries in progress until then."""
        while True:
            try:
                async with asyncio.timeout(self._alive_s):
                    return await self._free.get()
            except TimeoutError:
                for delivery in deliveries:
                    await delivery.in_progress()

    async def _commit_apart(self, prepared: Sequence[PreparedDelivery], store: Store) -> None:
        """Commit; when cancelled, finish the current commit first."""
        committing = asyncio.create_task(self._commit(prepared, store))
        try:
            await asyncio.shield(committing)
        finally:
            await asyncio.wait([committing], timeout=_LAST_COMMIT_S)
            committing.cancel()
            self._free.put_nowait(store)

    async def _commit(self, batches: Sequence[PreparedDelivery], store: Store) -> None:
        """Store batches and acknowledge them; after refused rows, store them one by one."""
        deliveries = [delivery for delivery, _ in batches]
        try:
            self.rows += await patiently(
                deliveries, store.save, [prepared for _, prepared in batches]
            )
        except RefusedRows as error:
            if len(batches) == 1:
                await self._bury(deliveries[0], str(error))
                return
            for single in batches:
                await self._commit([single], store)
            return
        except MemoryError:
            _log.error("no memory to commit %d batches, they will be retried", len(batches))
            for delivery in deliveries:
                await _retry_soon(delivery)
            return
        for delivery in deliveries:
            await delivery.ack()
        self._stored([delivery.recorded for delivery in deliveries])

    async def _bury(self, delivery: Delivery, reason: str) -> None:
        subject = delivery.recorded.subject
        place = place_of(subject) | {"agent": agent_of(subject)}
        try:
            await delivery.bury(reason)
            self.buried += 1
            _log.warning("buried %s: %s", subject, reason, extra=place)
        except BusError as error:
            unburied = "no dead letter for %s; redelivery follows: %s"
            _log.error(unburied, subject, error, extra=place)
