"""A durable in memory: what is out, since when, how often; redelivery and delays. No waiting."""

from dataclasses import dataclass

from mlscope.bus.memory.log import Kept, Log
from mlscope.bus.streams import Durable


@dataclass(slots=True)
class _Out:
    """A message that was delivered and not yet acknowledged; due again at `due_s`."""

    tries: int
    due_s: float


class DurableState:
    """The place of one durable in its stream."""

    def __init__(self, durable: Durable, log: Log) -> None:
        """Begin at the stream's first message."""
        self.durable = durable
        self._log = log
        self._after = 0
        self._out: dict[int, _Out] = {}

    def take(self, batch: int, now_s: float) -> list[tuple[Kept, int]]:
        """Return up to `batch` messages with their tries: those due again first, then new ones."""
        taken: list[tuple[Kept, int]] = []
        for sequence in sorted(s for s, out in self._out.items() if out.due_s <= now_s):
            kept = self._log.get(sequence)
            if kept is None:
                del self._out[sequence]
            elif len(taken) < batch:
                taken.append(self._deliver(kept, now_s))
        room = min(batch - len(taken), self.durable.max_ack_pending - len(self._out))
        if room > 0:
            for kept in self._log.beyond(self.durable.filters, self._after)[:room]:
                self._after = kept.sequence
                taken.append(self._deliver(kept, now_s))
        return taken

    def _deliver(self, kept: Kept, now_s: float) -> tuple[Kept, int]:
        out = self._out.setdefault(kept.sequence, _Out(0, 0.0))
        out.tries += 1
        out.due_s = now_s + self.durable.ack_wait_s
        return kept, out.tries

    def end(self, sequence: int) -> None:
        """Never deliver a message again."""
        self._out.pop(sequence, None)

    def postpone(self, sequence: int, due_s: float) -> None:
        """Deliver a message again at a time."""
        if sequence in self._out:
            self._out[sequence].due_s = due_s

    def acknowledged(self) -> int:
        """Return the sequence up to which nothing is out."""
        return min(self._out) - 1 if self._out else self._after

    def next_due_s(self) -> float | None:
        """Return when the next redelivery is due, or None."""
        return min((out.due_s for out in self._out.values()), default=None)
