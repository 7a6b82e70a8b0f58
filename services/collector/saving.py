"""I/O: from a durable of batches to committed rows, the next batches prepared meanwhile.

Acknowledged is what is committed. While the database is away batches are held, not given back:
their tries are for what is wrong with them, not with it.
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
from schemas.batch import Batch
from schemas.identity import run_key
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
from services.collector.rows import layout_of, place_of, rows_of
from services.collector.store import Prepared, Store

_log = logging.getLogger(__name__)
_MOST_DELAY_S = 5.0
_LAST_COMMIT_S = 10.0
_ALIVE_S = 10.0
TRIES_FOR_UNKNOWN = 30

Kept = tuple[Delivery, Prepared]
P = ParamSpec("P")
T = TypeVar("T")


def prepared_of(batch: Batch, requested_ns: int) -> Prepared:
    """Return a batch ready to store. Raises MisshapenBatch."""
    key = run_key(batch.evaluation, batch.run, batch.attempt)
    layout = layout_of(batch)
    names = getattr(batch, "name_ids", ()), getattr(batch, "name_texts", ())
    if len(names[0]) != len(names[1]):
        raise MisshapenBatch(f"{len(names[1])} texts for {len(names[0])} names")
    return Prepared(
        marker=(key, layout.kind, batch.sequence),
        table=layout.table,
        count=batch.count,
        rows=rows_of(batch, place_of(batch, key, requested_ns)),
        names=tuple(zip(*names, strict=True)),
    )


async def patiently(
    deliveries: Sequence[Delivery], act: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Do database work in a thread, again until the database can; deliveries stay ours.

    Raises what else the work raises.
    """
    delay_s = 0.1
    while True:
        try:
            return await asyncio.to_thread(act, *args, **kwargs)
        except DatabaseAway as error:
            level = logging.ERROR if isinstance(error, DatabaseFull) else logging.WARNING
            _log.log(level, "rows wait, again in %.1f s: %s", delay_s, error)
        for delivery in deliveries:
            await delivery.working()
        await asyncio.sleep(delay_s)
        delay_s = min(delay_s * 2, _MOST_DELAY_S)


async def _again(delivery: Delivery) -> None:
    """Ask for a batch again soon; past its last try it is buried, or comes again all the same."""
    with contextlib.suppress(BusError):
        await delivery.retry(1.0)


class Saver:
    """Stores what one durable delivers, a transaction a store at a time side by side.

    `stored` is called after each commit; while batches wait for a store, the durable is told so
    every `alive_s`.
    """

    def __init__(
        self,
        bus: Bus,
        stores: Sequence[Store],
        evaluations: Evaluations,
        stored: Callable[[], None],
        alive_s: float = _ALIVE_S,
    ) -> None:
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
        """Save for ever: while transactions commit, the next batches are fetched and encoded.

        Cancelled, it ends after those under way.
        """
        for store in self._stores:
            self._free.put_nowait(store)
        async with asyncio.TaskGroup() as commits:
            async for deliveries in self._bus.deliveries(durable, batch=batch):
                if len(deliveries) >= batch:
                    self._full_at_s = time.monotonic()
                kept = [each for one in deliveries if (each := await self._prepare(one))]
                if kept:
                    store = await self._turn([delivery for delivery, _ in kept])
                    commits.create_task(self._commit_apart(kept, store))

    def was_behind(self, within_s: float) -> bool:
        """Whether more was there than one fetch takes, within the last seconds."""
        return time.monotonic() - self._full_at_s < within_s

    def close(self) -> None:
        """Give the connections back."""
        for store in self._stores:
            store.close()

    async def _prepare(self, delivery: Delivery) -> Kept | None:
        batch = cast("Batch", delivery.recorded.fact)
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
                await _again(delivery)
        except BusError as error:
            _log.warning("evaluation %s cannot be read: %s", batch.evaluation, error)
            await _again(delivery)
        except MemoryError:
            _log.error("no memory for a batch of %s, it comes again", batch.evaluation)
            await _again(delivery)
        except Exception as error:  # noqa: BLE001 (whatever a stranger sends, the loop goes on)
            await self._bury(delivery, f"{type(error).__name__}: {error}")
        return None

    async def _turn(self, deliveries: Sequence[Delivery]) -> Store:
        """Return a store once one is free; until then the deliveries stay ours."""
        while True:
            try:
                async with asyncio.timeout(self._alive_s):
                    return await self._free.get()
            except TimeoutError:
                for delivery in deliveries:
                    await delivery.working()

    async def _commit_apart(self, kept: Sequence[Kept], store: Store) -> None:
        """Commit, and when cancelled still finish what has begun."""
        committing = asyncio.create_task(self._commit(kept, store))
        try:
            await asyncio.shield(committing)
        finally:
            await asyncio.wait([committing], timeout=_LAST_COMMIT_S)
            committing.cancel()
            self._free.put_nowait(store)

    async def _commit(self, kept: Sequence[Kept], store: Store) -> None:
        """Store batches and acknowledge them. Refused rows are found by storing one by one."""
        deliveries = [delivery for delivery, _ in kept]
        try:
            self.rows += await patiently(deliveries, store.save, [prepared for _, prepared in kept])
        except RefusedRows as error:
            if len(kept) == 1:
                await self._bury(deliveries[0], str(error))
                return
            for one in kept:
                await self._commit([one], store)
            return
        except MemoryError:
            _log.error("no memory to commit %d batches, they come again", len(kept))
            for delivery in deliveries:
                await _again(delivery)
            return
        for delivery in deliveries:
            await delivery.ack()
        self._stored()

    async def _bury(self, delivery: Delivery, reason: str) -> None:
        subject = delivery.recorded.subject
        try:
            await delivery.bury(reason)
            self.buried += 1
            _log.warning("buried %s: %s", subject, reason)
        except BusError as error:
            _log.error("no dead letter for %s, it comes again: %s", subject, error)
