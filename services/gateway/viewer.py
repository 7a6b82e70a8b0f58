"""One client of a live stream: a place in the story, and a bounded queue of what may be dropped."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.status import EvaluationStatus


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; `sequence` 0 has no id and cannot be resumed from."""

    name: str
    data: str
    sequence: int = 0

    def encoded(self) -> bytes:
        """Return the event as the wire wants it; `data` is one line of JSON."""
        head = f"id: {self.sequence}\n" if self.sequence else ""
        return f"{head}event: {self.name}\ndata: {self.data}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Tick:
    """One 100 ms batch of progress; `number` counts ticks, so that a gap can be named."""

    number: int
    data: str


class Viewer:
    """What one client has yet to see.

    Story events stay in the feed's list and are never dropped: a viewer only keeps its place.
    Ticks beyond `limit` push out the oldest, and a `gap` event says which.
    """

    def __init__(self, story: Sequence[Event], *, after: int, limit: int = 64) -> None:
        self._story = story
        self._after = after
        self._place = 0
        self._ticks: deque[Tick] = deque()
        self._limit = limit
        self._gap: tuple[int, int] | None = None
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Tell that the story grew or ended."""
        self._woken.set()

    def push(self, tick: Tick) -> None:
        """Add a tick; the oldest makes room."""
        if len(self._ticks) >= self._limit:
            lost = self._ticks.popleft().number
            self._gap = (self._gap[0] if self._gap else lost, lost)
        self._ticks.append(tick)
        self._woken.set()

    async def wait(self, timeout_s: float) -> bool:
        """Return whether something came within the time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    def take(self) -> list[Event]:
        """Return all there is to send now: the story first, then progress, its gap before it."""
        story = self._story[self._place :]
        self._place += len(story)
        events = [event for event in story if event.sequence > self._after]
        if self._gap is not None:
            first, last = self._gap
            events.append(Event("gap", f'{{"from":{first},"to":{last}}}'))
            self._gap = None
        events += [Event("progress", tick.data) for tick in self._ticks]
        self._ticks.clear()
        return events


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a feed stands: the evaluation's status, and whether the story was read to its end."""

    status: EvaluationStatus
    caught_up: bool = False
