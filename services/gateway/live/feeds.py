"""A feed for each watched evaluation: reads log and live batches once for all its viewers."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import cast

from mlscope.bus.bus import Bus
from mlscope.bus.envelopes import decode_live
from mlscope.bus.errors import BusError
from mlscope.bus.live import LiveMessages
from mlscope.bus.shares import Shares
from mlscope.client.meter import Meter, Reading
from mlscope.evaluation.fold import ENDED, EvaluationRecord, evolve
from mlscope.evaluation.status import awaits_tables, status_of, unrequested_status
from mlscope.settings.limits import TABLES_WAIT_S
from mlscope.tasks import background_task, end_tasks
from schemas.batch import QueriesAnswered, TraceCaptured
from schemas.encoding.codec import decode_body, unpack
from schemas.live.resources import ResourcesUsed
from schemas.people import THE_USER, Asker
from schemas.status import EvaluationStatus
from schemas.subjects import RESOURCES, ROOT, resources_subject, story_of
from services.gateway.access.personal_bus import as_asked_by
from services.gateway.errors import TooManyViewers
from services.gateway.live.events import Event, Tick, event_of, tick_of
from services.gateway.live.overview import (
    ISSUER,
    NO_BROKER,
    UNREADABLE,
    OverviewFeed,
    OverviewViewer,
)
from services.gateway.live.spans import SpanGap, SpanRelay
from services.gateway.live.viewer import Viewer
from services.gateway.pages.home import Overview

_log = logging.getLogger(__name__)

_DECISIONS = ("evaluation", "run", "analysis")
_POLL_S = 1.0
_SETTLE_S = (0.0, 0.005, 0.05)
_TICK_S = 0.1
_MOST_COUNT = 1 << 40


@dataclass(frozen=True, slots=True)
class Scene:
    """An evaluation's status, and whether the log has been read to its end."""

    status: EvaluationStatus
    caught_up: bool = False


class Feed:
    """The events of one evaluation. `run` reads until the evaluation ends."""

    def __init__(self, bus: Bus, evaluation: str) -> None:
        self.scene = Scene(unrequested_status(evaluation))
        self.story: list[Event] = []
        self.viewers: set[Viewer] = set()
        self._bus = bus
        self._evaluation = evaluation
        self._record = EvaluationRecord()
        self._meter = Meter()
        self._has_progress = False
        self._ticks = 0
        self._tables_until_s = 0.0
        self._has_news = asyncio.Event()
        self.relay: SpanRelay | None = None
        self.is_broken = False

    @property
    def is_over(self) -> bool:
        """Whether the story is complete: also the tables, if it was cancelled under our eyes."""
        status = self.scene.status
        if not self.scene.caught_up or status.state not in ENDED:
            return False
        return not awaits_tables(status) or time.monotonic() >= self._tables_until_s

    @property
    def trouble(self) -> str:
        """Why nothing comes at present, '' where nothing keeps it from coming."""
        return "" if self._bus.is_connected else NO_BROKER

    async def run(self) -> None:
        """Subscribe to live messages, then read the log from its beginning, then new facts."""
        try:
            async with AsyncExitStack() as stack:
                for entity in (*_DECISIONS, "query", "trace", RESOURCES):
                    messages = self._bus.subscribe(f"{ROOT}.{entity}.{self._evaluation}.>")
                    stack.push_async_callback(messages.aclose)
                    await messages.ready()
                    listening = self._listen(entity, messages)
                    await stack.enter_async_context(background_task(listening))
                await stack.enter_async_context(background_task(self._send_ticks()))
                sequence = 0
                while not self.is_over:
                    sequence = await self._read(sequence)
                    if self.is_over:
                        break
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_POLL_S):
                            await self._has_news.wait()
                    self._has_news.clear()
                self._send_spans()
                self._wake_all()
        except BusError as error:
            _log.warning("feed ended: %s", error)
            self.is_broken = True
            self._wake_all()

    async def _read(self, after: int) -> int:
        """Add the log's facts after sequence `after`; return the last sequence.

        A live message may arrive before its fact is stored, so reading is repeated for a while.
        """
        for pause_s in _SETTLE_S:
            await asyncio.sleep(pause_s)
            try:
                facts = await self._bus.read(story_of(self._evaluation), after=after)
            except BusError as error:
                _log.warning("story not read: %s", error)
                return after
            if facts or not self.scene.caught_up:
                break
        for recorded in facts:
            self._record = evolve(self._record, recorded.fact)
            self.story.append(event_of(recorded, self._record))
        status = status_of(self._record) if self._record.is_known else self.scene.status
        if self.scene.caught_up and self.scene.status.state not in ENDED:
            self._tables_until_s = time.monotonic() + TABLES_WAIT_S
        self.scene = Scene(status, caught_up=True)
        if facts:
            self._wake_all()
        return facts[-1].sequence if facts else after

    def join(self, viewer: Viewer) -> None:
        """Add a viewer. One that wants spans gets those from now on, and gaps for those before."""
        self.viewers.add(viewer)
        if viewer.wants_spans:
            self.relay = self.relay or SpanRelay()
            viewer.introduce(self.relay.introduction())
            for row in self._meter.read().values():
                if row.spans:
                    end_ns = self.relay.last_end_ns(row.run)
                    viewer.push_gap(SpanGap(row.run, row.attempt, 0, end_ns, row.spans))
        if progress := self.progress():
            viewer.push(progress)
        viewer.wake()

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer; without one that wants spans they are only counted again."""
        self.viewers.discard(viewer)
        if not any(remaining.wants_spans for remaining in self.viewers):
            self.relay = None

    def _wake_all(self) -> None:
        for viewer in self.viewers:
            viewer.wake()

    async def _listen(self, entity: str, messages: LiveMessages) -> None:
        """Count queries and spans; for a decision, have the log read."""
        async for subject, body in messages:
            if entity in _DECISIONS:
                self._has_news.set()
                continue
            if not self._is_heard(subject):
                continue
            with contextlib.suppress(*UNREADABLE):
                if entity == RESOURCES:
                    used = decode_body(ResourcesUsed, body)
                    # An agent may say so of its own runs only: the broker checks the subject.
                    if subject == resources_subject(used) and self._meter.note_use(used):
                        self._has_progress = True
                    continue
                if entity == "trace":
                    if self.relay is not None:
                        self.relay.accept(cast("TraceCaptured", decode_live(subject, body)[1]))
                    # Without such viewers spans are only counted: their columns are not decoded.
                    batch = unpack(body)["data"]
                    numbers = [_count(batch[name]) for name in ("attempt", "sequence", "count")]
                    self._meter.count_spans(subject.split(".")[-3], *numbers)
                elif isinstance(fact := decode_live(subject, body)[1], QueriesAnswered):
                    self._meter.count_queries(fact)
                    if self.relay is not None:
                        self.relay.accept_load(fact)
                self._has_progress = True

    def _is_heard(self, subject: str) -> bool:
        """Tell whether a live message is of the agent that has the run, or of the scheduler.

        An agent may speak of any run under its own name, with which the subject ends: the broker
        checks no more. Before the log has been read, every agent is heard.
        """
        if not self.scene.caught_up:
            return True
        *_, run, _, speaker = subject.split(".")
        record = self._record.runs.get(run)
        return record is not None and speaker in (record.agent, ISSUER)

    async def _send_ticks(self) -> None:
        before: Mapping[str, Reading] = {}
        trouble = self.trouble
        while True:
            await asyncio.sleep(_TICK_S)
            if self.trouble != trouble:
                trouble = self.trouble
                self._wake_all()
            if not self._has_progress:
                continue
            self._has_progress = False
            self._ticks += 1
            readings = self._meter.read()
            tick = tick_of(self._ticks, readings, before)
            before = readings
            for viewer in self.viewers:
                viewer.push(tick)
            self._send_spans()

    def progress(self) -> Tick | None:
        """Return all progress so far, for a new viewer; None before the first."""
        readings = self._meter.read()
        return tick_of(self._ticks, readings) if readings else None

    def _send_spans(self) -> None:
        """Give the spans that came since the last time to the viewers that want them."""
        if self.relay is None:
            return
        viewers = [viewer for viewer in self.viewers if viewer.wants_spans]
        batches, gaps = self.relay.flush(), self.relay.take_gaps()
        for viewer in viewers:
            for gap in gaps:
                viewer.push_gap(gap)
            arrived = [viewer.push_spans(batch) for batch in batches]
            if not all(arrived):
                # Names and lanes that only dropped events had.
                viewer.introduce(self.relay.introduction())


def _count(value: object) -> int:
    """Return a number of a batch that was not decoded. Raises ValueError."""
    if not isinstance(value, int) or not 0 <= value <= _MOST_COUNT:
        raise ValueError("not a count")
    return value


class Feeds:
    """The feeds of watched evaluations; a feed ends with its last viewer."""

    def __init__(self, bus: Bus, *, limit: int) -> None:
        """`limit` is the maximum number of viewers of all feeds together."""
        self._bus = bus
        self._limit = limit
        self._feeds: dict[str, tuple[Feed, asyncio.Task[None]]] = {}
        self._overview = OverviewFeed(bus)
        self._overviews_of_people: set[OverviewFeed] = set()
        #: the open streams of each person, and of the cluster's user
        self._streams = Shares(limit)
        self.is_closing = False

    @property
    def viewers(self) -> int:
        """The number of open streams."""
        viewers = sum(len(feed.viewers) for feed, _ in self._feeds.values())
        overviews = (self._overview, *self._overviews_of_people)
        return viewers + sum(len(overview.viewers) for overview in overviews)

    @property
    def overview(self) -> Overview | None:
        """What all evaluations do, as viewers were last told; None if nobody views it."""
        return self._overview.overview

    def check_limit(self, asker: Asker = THE_USER) -> None:
        """Raise TooManyViewers if `asker` may open no further stream.

        One person may have half of them, so that others see something as well.
        """
        is_full = self.viewers >= self._limit or self.is_closing
        if is_full or not self._streams.leaves_half(asker.name):
            raise TooManyViewers(self._limit)

    def _stream_of(self, asker: Asker) -> AbstractContextManager[None]:
        """Count a stream of `asker` while the context is open. Raises TooManyViewers."""
        self.check_limit(asker)
        return self._streams.one_of(asker.name)

    @asynccontextmanager
    async def viewing(
        self, evaluation: str, *, after: int, wants_spans: bool = False, asker: Asker = THE_USER
    ) -> AsyncIterator[tuple[Feed, Viewer]]:
        """View an `evaluation` while the context is open; skip its story up to sequence `after`.

        With `wants_spans` the viewer, whom `asker` looks through, gets spans too. Raises
        TooManyViewers.
        """
        with self._stream_of(asker):
            if evaluation not in self._feeds:
                feed = Feed(self._bus, evaluation)
                self._feeds[evaluation] = (feed, asyncio.create_task(feed.run()))
            feed, running = self._feeds[evaluation]
            viewer = Viewer(feed.story, after=after, wants_spans=wants_spans)
            feed.join(viewer)
            try:
                yield feed, viewer
            finally:
                feed.leave(viewer)
                if not feed.viewers and self._feeds.get(evaluation, (None,))[0] is feed:
                    del self._feeds[evaluation]
                    await end_tasks([running])

    @asynccontextmanager
    async def viewing_overview(
        self, *, digest: str, asker: Asker = THE_USER
    ) -> AsyncIterator[tuple[OverviewFeed, OverviewViewer]]:
        """View all evaluations while the context is open; `digest` is the page's own.

        A person who is no owner gets a feed of their own, with what `asker` may see.

        Raises TooManyViewers.
        """
        with self._stream_of(asker):
            if asker.is_owner:
                async with self._overview.viewing(digest=digest) as viewer:
                    yield self._overview, viewer
                return
            overview = OverviewFeed(as_asked_by(asker, self._bus))
            self._overviews_of_people.add(overview)
            try:
                async with overview.viewing(digest=digest) as viewer:
                    yield overview, viewer
            finally:
                self._overviews_of_people.discard(overview)

    def close(self) -> None:
        """End every stream soon, without an `end` event: its client reconnects elsewhere."""
        self.is_closing = True
        for feed, _ in self._feeds.values():
            for viewer in feed.viewers:
                viewer.wake()
        for overview in (self._overview, *self._overviews_of_people):
            for overview_viewer in overview.viewers:
                overview_viewer.wake()
