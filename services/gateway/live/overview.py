"""What all evaluations do, for the first page: read once for all who look at it.

The page is asked for again when an event says that it changed; progress comes as numbers. A viewer
that is slow gets the newest event of each kind, so nothing piles up.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mlscope.bus.bus import Bus
from mlscope.bus.envelopes import decode_live
from mlscope.bus.errors import BusError
from mlscope.bus.live import LiveMessages
from mlscope.client.errors import ClientError
from mlscope.client.meter import Meter, Reading
from mlscope.tasks import background_task, end_tasks
from schemas.batch import QueriesAnswered
from schemas.encoding.errors import SchemaError
from schemas.subjects import ROOT
from services.gateway.bus_requests import overview_of
from services.gateway.live.events import Event
from services.gateway.live.wake_signal import WakeSignal
from services.gateway.pages.home import Overview

_log = logging.getLogger(__name__)
_DECISIONS = ("evaluation", "run", "analysis")
_TICK_S = 0.5
_REFRESH_S = 5.0
"""How often the agents are read anew: no fact of theirs reaches the gateway."""
_RATE_TICKS = 6
UNREADABLE = (SchemaError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError)
"""What reading a live batch may raise: its agent may put anything into it."""
ISSUER = "scheduler"
"""Who answers for the queries of a remote load; no agent has this name."""
NO_BROKER = "The message broker does not answer; `mlscope status` shows which services run"
"""What streams say while nothing can come."""


class OverviewViewer(WakeSignal):
    """The newest event of each kind that one client has not received yet."""

    def __init__(self) -> None:
        super().__init__()
        self._events: dict[str, Event] = {}

    def push(self, event: Event) -> None:
        """Replace an unsent event of the same kind."""
        self._events[event.name] = event
        self.wake()

    def take(self) -> list[Event]:
        """Return the events to send now."""
        events = list(self._events.values())
        self._events.clear()
        return events


class RunRates:
    """Queries a second of each run over the last ticks."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], deque[tuple[float, int]]] = {}

    def rate_hz(self, evaluation: str, reading: Reading, now_s: float) -> float:
        """Count a run's answers at `now_s`, and return its rate; 0 at first.

        `evaluation` and `reading` say which run it is, and how many queries it answered.
        """
        key = (evaluation, reading.run, reading.attempt)
        counts = self._counts.setdefault(key, deque(maxlen=_RATE_TICKS))
        counts.append((now_s, reading.answered))
        (first_s, first), (last_s, last) = counts[0], counts[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0

    def forget_all_but(self, evaluations: set[str]) -> None:
        """Forget the runs of other evaluations."""
        self._counts = {key: value for key, value in self._counts.items() if key[0] in evaluations}


class OverviewFeed:
    """Events about all evaluations: `changed` with the page's digest, and `progress`."""

    def __init__(self, bus: Bus) -> None:
        self.viewers: set[OverviewViewer] = set()
        #: the newest overview; None before the first one and while services do not answer
        self.overview: Overview | None = None
        self.digest = ""
        self.is_broken = False
        self._refusal = ""
        self._bus = bus
        self._meters: dict[str, Meter] = {}
        self._rates = RunRates()
        #: the open evaluations, and the agent of each of their runs
        self._open: set[str] = set()
        self._agents: dict[tuple[str, str], str] = {}
        self._has_decisions = True
        self._has_progress = False
        self._running: asyncio.Task[None] | None = None

    @property
    def trouble(self) -> str:
        """Why the overview is not up to date, '' where it is."""
        return self._refusal if self._bus.is_connected else NO_BROKER

    @asynccontextmanager
    async def viewing(self, *, digest: str) -> AsyncIterator[OverviewViewer]:
        """Lend a viewer for a page of this `digest`; the first one starts the feed."""
        viewer = OverviewViewer()
        if self.digest and digest != self.digest:
            viewer.push(_changed(self.digest))
        self.viewers.add(viewer)
        self._has_decisions = True
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
            self.is_broken = False
        try:
            yield viewer
        finally:
            self.viewers.discard(viewer)
            if not self.viewers and self._running:
                await end_tasks([self._running])
                self._running, self.digest, self.overview = None, "", None

    async def _run(self) -> None:
        """Listen, and tell the viewers, until cancelled or the bus fails."""
        try:
            await self._follow()
        except BusError as error:
            _log.warning("overview ended: %s", error)
            self.is_broken = True
            self._wake_all()

    async def _follow(self) -> None:
        async with AsyncExitStack() as stack:
            for entity in (*_DECISIONS, "query"):
                messages = self._bus.subscribe(f"{ROOT}.{entity}.>")
                stack.push_async_callback(messages.aclose)
                await messages.ready()
                await stack.enter_async_context(background_task(self._listen(entity, messages)))
            refreshed_s, trouble = 0.0, self.trouble
            while True:
                if self.trouble != trouble:
                    trouble = self.trouble
                    self._wake_all()
                if self._has_decisions or time.monotonic() - refreshed_s > _REFRESH_S:
                    self._has_decisions = False
                    refreshed_s = time.monotonic()
                    await self._refresh()
                # Progress of hidden evaluations alone is not sent.
                if self._has_progress and not self._open.isdisjoint(self._meters):
                    self._push(self._progress())
                self._has_progress = False
                await asyncio.sleep(_TICK_S)

    async def _listen(self, entity: str, messages: LiveMessages) -> None:
        """Count queries; for a decision, have the overview asked for.

        Of queries only those count that come from the agent of a run that is shown, or from the
        scheduler: an agent may make up runs without end, under its own name.
        """
        async for subject, body in messages:
            if entity != "query":
                self._has_decisions = True
                continue
            *_, evaluation, run, _, speaker = subject.split(".")
            agent = self._agents.get((evaluation, run))
            if agent is None or speaker not in (agent, ISSUER):
                continue
            with contextlib.suppress(*UNREADABLE):
                if isinstance(fact := decode_live(subject, body)[1], QueriesAnswered):
                    self._meters.setdefault(fact.evaluation, Meter()).count_queries(fact)
                    self._has_progress = True

    async def _refresh(self) -> None:
        """Ask for the overview and tell viewers if their page is another one."""
        try:
            overview = await overview_of(self._bus)
        except (ClientError, BusError) as error:
            _log.warning("overview not refreshed: %s", error)
            self.overview, self._refusal = None, str(error)
            self._wake_all()
            return
        self._open = {status.evaluation for status in overview.open}
        self._agents = {
            (status.evaluation, run.run): run.agent
            for status in overview.open
            for run in status.runs
        }
        self._meters = {name: meter for name, meter in self._meters.items() if name in self._open}
        self._rates.forget_all_but(self._open)
        # After trouble the viewers are told that all is well, also where nothing changed.
        is_news = self.overview is None or overview.digest != self.digest
        self.overview, self.digest, self._refusal = overview, overview.digest, ""
        if is_news:
            self._push(_changed(self.digest))

    def _progress(self) -> Event:
        """Return the readings of every open evaluation's runs as columns."""
        now_s = time.monotonic()
        rows = [
            (evaluation, reading, self._rates.rate_hz(evaluation, reading, now_s))
            for evaluation, meter in self._meters.items()
            if evaluation in self._open  # others are over, or hidden from who asks
            for reading in meter.read().values()
        ]
        columns: dict[str, list[Any]] = {
            "evaluation": [evaluation for evaluation, _, _ in rows],
            "queries_per_s": [round(rate_hz, 3) for _, _, rate_hz in rows],
        }
        for name in ("run", "answered", "failed", "p50_ns", "p99_ns"):
            columns[name] = [getattr(reading, name) for _, reading, _ in rows]
        return Event("progress", json.dumps(columns, separators=(",", ":")))

    def _wake_all(self) -> None:
        for viewer in self.viewers:
            viewer.wake()

    def _push(self, event: Event) -> None:
        for viewer in self.viewers:
            viewer.push(event)


def _changed(digest: str) -> Event:
    return Event("changed", json.dumps({"digest": digest}), identity=digest)
