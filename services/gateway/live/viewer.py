"""One client of a live stream: its position in the story, and a bounded queue of progress."""

from collections import deque
from collections.abc import Sequence

from services.gateway.live.events import Event, Tick
from services.gateway.live.spans import SpanBatch, SpanGap
from services.gateway.live.wake_signal import WakeSignal

MOST_SPAN_BYTES = 16 << 20
"""Events of spans that wait for one client; they are shared with the other clients."""


class Viewer(WakeSignal):
    """The events that one client has not received yet.

    Story events stay in the feed's list and are never dropped: a viewer only stores its position.
    When there are more than `limit` ticks the oldest is dropped, and a `gap` event names it. Spans
    come only to a viewer that `wants_spans`; of more than `most_bytes` the oldest are dropped, and
    a `gap` event counts them.
    """

    def __init__(
        self,
        story: Sequence[Event],
        *,
        after: int,
        limit: int = 64,
        wants_spans: bool = False,
        most_bytes: int = MOST_SPAN_BYTES,
    ) -> None:
        """View a `story`, which its feed extends, from behind the sequence `after` on."""
        super().__init__()
        self.wants_spans = wants_spans
        self._spans: deque[SpanBatch] = deque()
        self._span_bytes = 0
        self._most_span_bytes = most_bytes
        self._introduction = b""
        self._span_gaps: list[SpanGap] = []
        self._story = story
        self._after = after
        self._position = 0
        self._ticks: deque[Tick] = deque()
        self._limit = limit
        self._gap: tuple[int, int] | None = None

    def push(self, tick: Tick) -> None:
        """Add a tick; drop the oldest if there are too many."""
        if len(self._ticks) >= self._limit:
            dropped = self._ticks.popleft().number
            self._gap = (self._gap[0] if self._gap else dropped, dropped)
        self._ticks.append(tick)
        self.wake()

    def introduce(self, introduction: bytes) -> None:
        """Send an event with all lanes and names before the next spans."""
        self._introduction = introduction

    def push_spans(self, batch: SpanBatch) -> bool:
        """Add spans; drop the oldest if there are too many. Tell whether all are there still."""
        self._spans.append(batch)
        self._span_bytes += len(batch.data)
        is_whole = True
        while self._span_bytes > self._most_span_bytes and len(self._spans) > 1:
            dropped = self._spans.popleft()
            self._span_bytes -= len(dropped.data)
            self.push_gap(dropped.gap)
            is_whole = False
        self.wake()
        return is_whole

    def push_gap(self, gap: SpanGap) -> None:
        """Add a stretch of missing spans; one that goes on where the last one ends is joined."""
        last = self._span_gaps[-1] if self._span_gaps else None
        if last is not None and (joined := last.joined(gap)) is not None:
            self._span_gaps[-1] = joined
        else:
            self._span_gaps.append(gap)
        self.wake()

    def take(self) -> list[Event | SpanBatch]:
        """Return the events to send now: the story, gaps, progress, then spans."""
        story = self._story[self._position :]
        self._position += len(story)
        events: list[Event | SpanBatch] = [e for e in story if e.sequence > self._after]
        if self._gap is not None:
            first, last = self._gap
            events.append(Event("gap", f'{{"from":{first},"to":{last}}}'))
            self._gap = None
        events += [Event("progress", tick.data) for tick in self._ticks]
        events += [Event("gap", gap.data) for gap in self._span_gaps]
        if self._introduction:
            events.append(Event("spans", self._introduction.decode()))
        events += self._spans
        self._ticks.clear()
        self._span_gaps.clear()
        self._spans.clear()
        self._span_bytes, self._introduction = 0, b""
        return events
