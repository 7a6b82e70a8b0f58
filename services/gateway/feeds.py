"""One feed per evaluation somebody looks at: log and live batches, read once for all viewers."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.bus.hearing import Hearing
from mlscope.bus.letters import heard
from mlscope.client.meter import Meter
from mlscope.client.story import ENDED, evolve, unheard
from schemas.batch import QueriesAnswered
from schemas.codec import unpack
from schemas.errors import SchemaError
from schemas.subjects import ROOT, story_of
from services.gateway.errors import TooManyViewers
from services.gateway.telling import event_of, tick_of
from services.gateway.viewer import Event, Scene, Viewer

_log = logging.getLogger(__name__)

_DECISIONS = ("evaluation", "run", "analysis")
_POLL_S = 1.0
_SETTLE_S = (0.0, 0.005, 0.05)
_TICK_S = 0.1


class Feed:
    """What is said of one evaluation. `run` reads until it ends or is cancelled."""

    def __init__(self, bus: Bus, evaluation: str) -> None:
        self.scene = Scene(unheard(evaluation))
        self.story: list[Event] = []
        self.viewers: set[Viewer] = set()
        self._bus = bus
        self._evaluation = evaluation
        self._meter = Meter()
        self._moved = False
        self._woken = asyncio.Event()
        self.is_broken = False

    @property
    def is_over(self) -> bool:
        """Whether everything there will ever be is in the story."""
        return self.scene.caught_up and self.scene.status.state in ENDED

    async def run(self) -> None:
        """Hear live messages, then read the log from its beginning, then whatever comes."""
        try:
            await self._run()
        except BusError as error:
            _log.warning("feed ended: %s", error)
            self.is_broken = True
            self._wake_all()

    async def _run(self) -> None:
        async with AsyncExitStack() as stack:
            for entity in (*_DECISIONS, "query", "trace"):
                hearing = self._bus.hear(f"{ROOT}.{entity}.{self._evaluation}.>")
                stack.push_async_callback(hearing.aclose)
                await hearing.ready()
                await stack.enter_async_context(_beside(self._listen(entity, hearing)))
            await stack.enter_async_context(_beside(self._tick()))
            await self._read_on()

    async def _read_on(self) -> None:
        sequence = 0
        while not self.is_over:
            sequence = await self._read(sequence)
            if self.is_over:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._woken.wait()
            self._woken.clear()
        self._wake_all()

    async def _read(self, after: int) -> int:
        """Add what the log holds beyond `after`; a live message may come before it is stored."""
        for pause_s in _SETTLE_S:
            await asyncio.sleep(pause_s)
            try:
                found = await self._bus.read(story_of(self._evaluation), after=after)
            except BusError as error:
                _log.warning("story not read: %s", error)
                return after
            if found or not self.scene.caught_up:
                break
        status = self.scene.status
        for recorded in found:
            status = evolve(status, recorded.fact)
            self.story.append(event_of(recorded, status))
        self.scene = Scene(status, caught_up=True)
        if found:
            self._wake_all()
        return found[-1].sequence if found else after

    def _wake_all(self) -> None:
        for viewer in self.viewers:
            viewer.wake()

    async def _listen(self, entity: str, hearing: Hearing) -> None:
        async for subject, body in hearing:
            if entity in _DECISIONS:
                self._woken.set()
                continue
            with contextlib.suppress(SchemaError, KeyError, TypeError):
                self._count(entity, subject, body)
                self._moved = True

    def _count(self, entity: str, subject: str, body: bytes) -> None:
        if entity == "trace":
            # Spans are only counted here: their columns stay bytes.
            batch = unpack(body)["data"]
            self._meter.count_spans(
                str(batch["run"]), batch["attempt"], batch["sequence"], batch["count"]
            )
            return
        fact = heard(subject, body)[1]
        if isinstance(fact, QueriesAnswered):
            self._meter.count_queries(fact)

    async def _tick(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(_TICK_S)
            if self._moved:
                self._moved = False
                number += 1
                tick = tick_of(number, self._meter.read())
                for viewer in self.viewers:
                    viewer.push(tick)


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` while inside."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Feeds:
    """The feeds somebody looks at; the last viewer of one ends it."""

    def __init__(self, bus: Bus, *, limit: int) -> None:
        """`limit` bounds the viewers of all feeds together."""
        self._bus = bus
        self._limit = limit
        self._feeds: dict[str, tuple[Feed, asyncio.Task[None]]] = {}
        self.is_closing = False

    @property
    def viewers(self) -> int:
        """How many streams are open."""
        return sum(len(feed.viewers) for feed, _ in self._feeds.values())

    def make_room(self) -> None:
        """Return when a stream is free. Raises TooManyViewers."""
        if self.viewers >= self._limit or self.is_closing:
            raise TooManyViewers(self._limit)

    @asynccontextmanager
    async def viewing(self, evaluation: str, *, after: int) -> AsyncIterator[tuple[Feed, Viewer]]:
        """Look at an evaluation while inside. Raises TooManyViewers."""
        self.make_room()
        if evaluation not in self._feeds:
            feed = Feed(self._bus, evaluation)
            self._feeds[evaluation] = (feed, asyncio.create_task(feed.run()))
        feed, running = self._feeds[evaluation]
        viewer = Viewer(feed.story, after=after)
        feed.viewers.add(viewer)
        try:
            viewer.wake()
            yield feed, viewer
        finally:
            feed.viewers.discard(viewer)
            if not feed.viewers and self._feeds.get(evaluation, (None,))[0] is feed:
                del self._feeds[evaluation]
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    def close(self) -> None:
        """Have every stream end soon, without an `end` event: its client comes back elsewhere."""
        self.is_closing = True
        for feed, _ in self._feeds.values():
            for viewer in feed.viewers:
                viewer.wake()
