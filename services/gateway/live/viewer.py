"""One client of a live stream: its position in the story, and a bounded queue of progress."""

import asyncio
from collections import deque
from collections.abc import Sequence

from services.gateway.live.events import Event, Tick


class Viewer:
    """The events that one client has not received yet.

    Story events stay in the feed's list and are never dropped: a viewer only stores its position.
    When there are more than `limit` ticks the oldest is dropped, and a `gap` event names it.
    """

    def __init__(self, story: Sequence[Event], *, after: int, limit: int = 64) -> None:
        """View a `story`, which its feed extends, from behind the sequence `after` on."""
        self._story = story
        self._after = after
        self._position = 0
        self._ticks: deque[Tick] = deque()
        self._limit = limit
        self._gap: tuple[int, int] | None = None
        self._has_news = asyncio.Event()

    def wake(self) -> None:
        """Signal that the story has grown or ended."""
        self._has_news.set()

    def push(self, tick: Tick) -> None:
        """Add a tick; drop the oldest if there are too many."""
        if len(self._ticks) >= self._limit:
            dropped = self._ticks.popleft().number
            self._gap = (self._gap[0] if self._gap else dropped, dropped)
        self._ticks.append(tick)
        self._has_news.set()

    async def wait(self, timeout_s: float) -> bool:
        """Tell whether there are new events within `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._has_news.wait()
        except TimeoutError:
            return False
        self._has_news.clear()
        return True

    def take(self) -> list[Event]:
        """Return the events to send now: the story, then a gap if there is one, then progress."""
        story = self._story[self._position :]
        self._position += len(story)
        events = [event for event in story if event.sequence > self._after]
        if self._gap is not None:
            first, last = self._gap
            events.append(Event("gap", f'{{"from":{first},"to":{last}}}'))
            self._gap = None
        events += [Event("progress", tick.data) for tick in self._ticks]
        self._ticks.clear()
        return events
