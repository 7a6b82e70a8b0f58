"""Watching one evaluation: live facts first, then its status, then what happens until it ends.

Live facts may be lost (a reconnect, a slow reader), so the status is asked again at intervals;
`evolve` makes facts that it already contains harmless.
"""

import asyncio
import contextlib
import dataclasses
import heapq
import itertools
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlscope.bus.bus import Bus
from mlscope.bus.envelopes import decode_live
from mlscope.bus.live import LiveMessages
from mlscope.client.asking import ask_for, command_of
from mlscope.client.errors import CommandRefused, NotAnswering
from mlscope.evaluation.fold import ENDED, EvaluationRecord, evolve
from mlscope.evaluation.status import record_of, status_of
from mlscope.tasks import end_tasks
from schemas.batch import QueriesAnswered
from schemas.encoding.errors import SchemaError
from schemas.message import Fact
from schemas.request import ShowEvaluation
from schemas.status import EvaluationStatus
from schemas.subjects import ROOT

if TYPE_CHECKING:
    from mlscope.client.meter import Reading

_ENTITIES = ("evaluation", "run", "analysis", "query")
_QUEUE = 1024
_END_POLLS, _END_POLL_S = 20, 0.1

_TimedFact = tuple[int, int, Fact]
"""When it was said (epoch ns), a count that breaks ties, and what."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where an evaluation is; `happened` is the fact that led here, '' after a refresh or a tick.

    `readings` are estimates so far by run, from live batches heard since watching began.
    """

    status: EvaluationStatus
    happened: str
    readings: "dict[str, Reading]"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.status.state in ENDED


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a watcher speaks (`tick_s`) and asks the status again (`poll_s`), in seconds.

    `patience_s` bounds the scheduler's silence.
    """

    tick_s: float = 1.0
    poll_s: float = 5.0
    patience_s: float = 120.0


async def watch(
    bus: Bus, evaluation: str, pace: Pace | None = None
) -> AsyncGenerator[Progress, None]:
    """Yield where `evaluation` is, at once and then with every change, until it ended.

    It is heard over `bus`; `pace` says how often it speaks without a change. Raises CommandRefused
    (unknown evaluation), NotAnswering past the patience.
    """
    command = command_of(ShowEvaluation, {"evaluation": evaluation})
    watcher = _Watcher(bus, command.evaluation, pace or Pace())
    async with watcher.listening():
        progress = await watcher.refresh()
        yield progress
        while not progress.ended:
            progress = await watcher.next()
            yield await watcher.settled(progress) if progress.ended else progress


class _Watcher:
    """The state of one watch; `listening` bounds the life of its subscriptions."""

    def __init__(self, bus: Bus, evaluation: str, pace: Pace) -> None:
        # Only who watches counts: every command and client imports this module, and numpy is slow.
        from mlscope.client.meter import Meter

        self._bus = bus
        self._evaluation = evaluation
        self._pace = pace
        self._facts: asyncio.Queue[_TimedFact] = asyncio.Queue(_QUEUE)
        self._held: list[_TimedFact] = []
        self._count = itertools.count()
        self._meter = Meter()
        self._refreshed_s = 0.0
        self._record = EvaluationRecord()
        self._address = ""

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Hear live facts while inside; on entry every subscription is in place."""
        subjects = [f"{ROOT}.{entity}.{self._evaluation}.>" for entity in _ENTITIES]
        hearings = [await self._bus.subscribe(subject).ready() for subject in subjects]

        async def listen(hearing: LiveMessages) -> None:
            async for subject, body in hearing:
                with contextlib.suppress(SchemaError):
                    envelope, fact = decode_live(subject, body)
                    await self._facts.put((envelope.time_ns, next(self._count), fact))

        listeners = [asyncio.create_task(listen(hearing)) for hearing in hearings]
        try:
            yield
        finally:
            await end_tasks(listeners)
            for hearing in hearings:
                await hearing.aclose()

    async def refresh(self) -> Progress:
        """Ask the status, for as long as the patience lasts."""
        give_up_s = time.monotonic() + self._pace.patience_s
        command = ShowEvaluation(evaluation=self._evaluation)
        while True:
            try:
                status = await ask_for(self._bus, command, EvaluationStatus)
            except (NotAnswering, CommandRefused) as error:
                # A scheduler that is overloaded, or waits for its log, is asked again.
                is_passing = isinstance(error, NotAnswering) or error.error == "unavailable"
                if not is_passing or time.monotonic() >= give_up_s:
                    raise
                await asyncio.sleep(min(0.5, self._pace.tick_s))
            else:
                self._record, self._address = record_of(status), status.address
                self._refreshed_s = time.monotonic()
                return self._progress("")

    async def settled(self, progress: Progress) -> Progress:
        """Return the end as the scheduler tells it: complete, but it may hear of it after us."""
        command = ShowEvaluation(evaluation=self._evaluation)
        for _ in range(_END_POLLS):
            with contextlib.suppress(NotAnswering, CommandRefused):
                status = await ask_for(self._bus, command, EvaluationStatus, timeout_s=1.0)
                if status.state in ENDED:
                    return dataclasses.replace(progress, status=status)
            await asyncio.sleep(_END_POLL_S)
        return progress

    async def next(self) -> Progress:
        """Return the progress after the next fact or tick."""
        if time.monotonic() - self._refreshed_s > self._pace.poll_s:
            return await self.refresh()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pace.tick_s):
                while True:
                    fact = await self._earliest()
                    if not isinstance(fact, QueriesAnswered):
                        self._record = evolve(self._record, fact)
                        return self._progress(fact.schema_name())
                    self._meter.count_queries(fact)
        return self._progress("")

    async def _earliest(self) -> Fact:
        """Return what happened first of all that is heard: each subscription has its own queue."""
        if not self._held:
            heapq.heappush(self._held, await self._facts.get())
            await asyncio.sleep(0)
        while len(self._held) < _QUEUE and not self._facts.empty():
            heapq.heappush(self._held, self._facts.get_nowait())
        return heapq.heappop(self._held)[2]

    def _progress(self, happened: str) -> Progress:
        status = status_of(self._record, self._address)
        return Progress(status, happened, self._meter.read())
