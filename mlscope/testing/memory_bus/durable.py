"""A durable in memory: unacknowledged messages, their tries, redelivery times and delays."""

import time
from dataclasses import dataclass

from mlscope.bus.records import Backlog
from mlscope.bus.streams import Durable
from mlscope.testing.memory_bus.log import Log, MemoryMessage


@dataclass(slots=True)
class _Unacknowledged:
    """A message that was delivered but not acknowledged; redelivered at `due_s` of the clock."""

    tries: int
    due_s: float


class DurableState:
    """The progress of one durable in its stream."""

    def __init__(self, durable: Durable, log: Log) -> None:
        """Start at the stream's first message."""
        self.durable = durable
        self._log = log
        self._after = 0
        self._unacknowledged: dict[int, _Unacknowledged] = {}

    def take(self, batch: int, now_s: float) -> list[tuple[MemoryMessage, int]]:
        """Return up to `batch` messages with their tries: redeliveries first, then new ones."""
        due: list[tuple[MemoryMessage, int]] = []
        for sequence in sorted(s for s, out in self._unacknowledged.items() if out.due_s <= now_s):
            message = self._log.get(sequence)
            if message is None:
                del self._unacknowledged[sequence]
                continue
            if len(due) < batch:
                due.append(self._deliver(message, now_s))
        room = min(batch - len(due), self.durable.max_ack_pending - len(self._unacknowledged))
        if room > 0:
            for message in self._log.beyond(self.durable.filters, self._after)[:room]:
                self._after = message.sequence
                due.append(self._deliver(message, now_s))
        return due

    def _deliver(self, message: MemoryMessage, now_s: float) -> tuple[MemoryMessage, int]:
        out = self._unacknowledged.setdefault(message.sequence, _Unacknowledged(0, 0.0))
        out.tries += 1
        out.due_s = now_s + self.durable.ack_wait_s
        return message, out.tries

    def end(self, sequence: int) -> None:
        """End the deliveries of a message."""
        self._unacknowledged.pop(sequence, None)

    def postpone(self, sequence: int, due_s: float) -> None:
        """Redeliver a message at the clock time `due_s`."""
        if sequence in self._unacknowledged:
            self._unacknowledged[sequence].due_s = due_s

    def acknowledged(self) -> int:
        """Return the sequence up to which every message is acknowledged."""
        return min(self._unacknowledged) - 1 if self._unacknowledged else self._after

    def backlog(self) -> Backlog:
        """Return what it has still to do."""
        waiting = self._log.beyond(self.durable.filters, self._after)
        again = sum(out.tries > 1 for out in self._unacknowledged.values())
        return Backlog(len(waiting), len(self._unacknowledged), again, time.time_ns())

    def next_due_s(self) -> float | None:
        """Return the clock time of the next redelivery, or None."""
        return min((out.due_s for out in self._unacknowledged.values()), default=None)
