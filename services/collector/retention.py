"""I/O: removes batches from their streams once a backup has their rows, or when room is needed.

Spans and queries that are rows stay in their streams until a backup has them, so that the rows of a
lost database can be stored anew from the log. They stay within a bound; beyond it the oldest are
removed. When a stream, or the store of large batches, is half full, all batches that have been rows
for a while are removed, so that publishers do not wait for room.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.bus.records import StreamContents
from mlscope.bus.streams import BATCHES, Durable, durable_named, stream_of
from schemas.subjects import attempt_batches
from services.collector.errors import CollectorServiceError
from services.collector.evaluations import Evaluations
from services.collector.saving import patiently
from services.collector.store import Purgeable, Store

_log = logging.getLogger(__name__)
_STORED_BY = ("spans", "queries")
_OBJECTS = f"OBJ_{BATCHES}"
_ENTITIES = ("trace", "query", "output")
_MOST_WAITING = 100_000
"""Attempts of which it is known since when they are announced, the newest."""
_MIN_POLL_S = 0.05
_MOST_POLL_S = 5.0
_ROOM_SHARE = 0.5
"""The share of a stream that may hold rows; above it publishers could come to wait."""


def leaving_share(streams: Sequence[StreamContents], keep_bytes: int) -> float:
    """Return which share of their messages must leave the `streams`, the oldest first.

    Together they may hold `keep_bytes`, and each half of its own bound.
    """
    if any(stream.size_bytes > _ROOM_SHARE * stream.max_bytes > 0 for stream in streams):
        return 1.0
    size_bytes = sum(stream.size_bytes for stream in streams)
    return max(1.0 - keep_bytes / size_bytes, 0.0) if size_bytes else 0.0


def last_to_leave(stream: StreamContents, share: float, saved: int) -> int:
    """Return the sequence up to which messages may leave the `stream`, 0 for none.

    A `share` of them must leave, and a backup has all up to the sequence `saved`. One above the
    last message is of an earlier stream of this name, so it says nothing.
    """
    count = stream.last - stream.first + 1
    must_leave = stream.first - 1 + math.ceil(share * count) if count > 0 else 0
    return max(must_leave, saved if saved <= stream.last else 0)


class Retention:
    """Removes batches from their streams once they are rows, and saved or in the way."""

    def __init__(self, bus: Bus, address: str, evaluations: Evaluations, keep_bytes: int) -> None:
        """Keep up to `keep_bytes` of batches on `bus` that no backup has.

        A connection to the database at `address` is opened; `evaluations` reads the decisions.
        """
        self._bus = bus
        self._store = Store(address)
        self._turn = asyncio.Lock()
        self._evaluations = evaluations
        self._keep_bytes = keep_bytes
        #: when an announced attempt was seen first (CLOCK_MONOTONIC), by its run key
        self._since_s: dict[int, float] = {}
        self.held_bytes = 0
        """The size of all batches in the log at the last look."""

    async def make_room(self, after_s: float) -> None:
        """Purge messages that have been rows for `after_s`, also of current runs, without end.

        Otherwise a run that is larger than its stream, or several half published runs, would wait
        for space that only their own end would free.
        """
        looks: deque[tuple[float, Mapping[str, int]]] = deque()
        while True:
            try:
                stored = {name: await self._bus.acknowledged(name) for name in _STORED_BY}
                looks.append((time.monotonic(), stored))
                while len(looks) > 1 and looks[1][0] <= time.monotonic() - after_s:
                    looks.popleft()
                is_due = looks[0][0] <= time.monotonic() - after_s
                await self._let_go(looks[0][1] if is_due else {})
            except (BusError, CollectorServiceError) as error:
                _log.warning("messages are kept for now: %s", error)
            await asyncio.sleep(min(max(after_s / 4, _MIN_POLL_S), _MOST_POLL_S))

    async def _let_go(self, stored: Mapping[str, int]) -> None:
        """Purge what may leave of the messages that are `stored`, up to a sequence by durable.

        The database notes first up to where messages leave that no backup has.
        """
        async with self._turn:
            saved = await patiently((), self._store.saved_up_to)
        durables = [durable_named(name) for name in _STORED_BY]
        streams = {durable.stream: await self._bus.contents(durable.stream) for durable in durables}
        everything = [*streams.values(), await self._bus.contents(_OBJECTS)]
        self.held_bytes = sum(stream.size_bytes for stream in everything)
        share = leaving_share(everything, self._keep_bytes)
        for durable in durables:
            stream, saved_up_to = streams[durable.stream], saved.get(durable.stream, 0)
            if saved_up_to > stream.last:
                # The stream was made anew: no backup has its messages, whatever their number.
                async with self._turn:
                    await patiently((), self._store.forget_stream, durable.stream)
            up_to = min(last_to_leave(stream, share, saved_up_to), stored.get(durable.name, 0))
            # An empty stream may begin at 0, and up to 0 means all.
            if 0 < stream.first <= up_to:
                is_saved = up_to <= saved_up_to <= stream.last
                await self._purge_up_to(durable, up_to, is_saved=is_saved)

    async def _purge_up_to(self, durable: Durable, up_to: int, *, is_saved: bool) -> None:
        """Purge a durable's messages up to a sequence; note it first where no backup has them."""
        if not is_saved:
            async with self._turn:
                await patiently((), self._store.note_left_up_to, durable.stream, up_to)
        for filter_subject in durable.filters:
            await self._bus.purge(filter_subject, up_to=up_to)

    async def purge(self, after_s: float) -> None:
        """Purge the messages of attempts that have been announced for `after_s`, without end.

        They stay while no backup has the attempt, and the log and backups have all of it. The time
        is our own: the database's clock may be set.
        """
        since_s = self._since_s
        while True:
            await asyncio.sleep(min(max(after_s / 4, _MIN_POLL_S), 10.0))
            try:
                async with self._turn:
                    settled = await patiently((), self._store.purgeable)
                now_s = time.monotonic()
                for attempt in settled:
                    since_s.setdefault(attempt.run_key, now_s)
                due = [run for run in settled if now_s - since_s[run.run_key] >= after_s]
                # Another collector may have purged the oldest.
                while len(since_s) > _MOST_WAITING:
                    del since_s[next(iter(since_s))]
                gone = [attempt.run_key for attempt in await self._unneeded(due)]
                async with self._turn:
                    await patiently((), self._store.purged, gone)
                for run_key in gone:
                    since_s.pop(run_key, None)
            except (BusError, CollectorServiceError) as error:
                _log.warning("messages are kept for now: %s", error)

    async def _unneeded(self, settled: Sequence[Purgeable]) -> list[Purgeable]:
        """Purge attempts that a backup has, or of which batches are in the database alone.

        Returns them. What a backup has of an attempt may leave before its other batches: only where
        messages left that no backup has, the log must have all of it.
        """
        async with self._turn:
            is_lacking = await patiently((), self._store.has_left_unsaved)
        gone = []
        for attempt in settled:
            is_unneeded = attempt.is_saved or (is_lacking and not await self._is_whole(attempt))
            if is_unneeded and await self._purge(attempt):
                gone.append(attempt)
        return gone

    async def _is_whole(self, attempt: Purgeable) -> bool:
        """Tell whether the log has as many batches as were counted of an attempt."""
        messages = 0
        for entity in _ENTITIES:
            batches = attempt_batches(entity, attempt.evaluation, attempt.run)
            stream = stream_of(batches)
            messages += (await self._bus.contents(stream, on=batches)).messages
        return messages >= max(attempt.batches, 1)

    async def _purge(self, settled: Purgeable) -> bool:
        """Drop a run's messages, unless another attempt of it may still be under way."""
        if not settled.is_only_attempt:
            decisions = await self._evaluations.decisions(settled.evaluation)
            if not decisions.ended:
                return False
        for entity in _ENTITIES:
            await self._bus.purge(attempt_batches(entity, settled.evaluation, settled.run))
        return True

    def close(self) -> None:
        """Close the connection."""
        self._store.close()
