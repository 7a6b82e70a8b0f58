"""What reaches a worker from outside while it runs: stops, remote queries, the end of a load."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mlscope.tracing.clock import now_ns
from services.agent.channel import Words
from services.agent.errors import RunTimedOut, Stopped

_LOOK_S = 0.05
MOST_WAITING = 65_536
"""Remote queries under way at a time; the next is answered as failed, `busy`."""

RunName = tuple[str, str, int]
"""evaluation, run, attempt"""


@dataclass(frozen=True, slots=True)
class RemoteQuery:
    """A query as its issuer sent it; `arrived_ns` (CLOCK_MONOTONIC) is when the agent got it."""

    index: int
    block: int
    samples: list[int]
    arrived_ns: int
    payload: list[bytes] | None = None


@dataclass(slots=True)
class Intake:
    """Queries of one remote run, until its load is finished."""

    waiting: "queue.SimpleQueue[RemoteQuery | None]" = field(default_factory=queue.SimpleQueue)


class Control:
    """Told by the thread that listens to the agent, asked by the one that works."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped: dict[RunName, str] = {}
        self._intakes: dict[RunName, Intake] = {}
        self._on_stop: dict[RunName, Callable[[], None]] = {}

    def stop(self, run: RunName, reason: str) -> None:
        """Ask a run to end; before it began, too."""
        with self._lock:
            self._stopped[run] = reason
            intake, on_stop = self._intakes.get(run), self._on_stop.get(run)
        if intake is not None:
            intake.waiting.put(None)
        if on_stop is not None:
            on_stop()

    def stop_reason(self, run: RunName) -> str | None:
        """Return why a run is to end, or None."""
        return self._stopped.get(run)

    def stop_with(self, run: RunName, on_stop: Callable[[], None]) -> None:
        """Call `on_stop` when the run is asked to end."""
        with self._lock:
            self._on_stop[run] = on_stop

    def admit(self, run: RunName) -> Intake:
        """Begin to take a remote run's queries."""
        with self._lock:
            return self._intakes.setdefault(run, Intake())

    def offer(self, run: RunName, query: RemoteQuery) -> str:
        """Take a query; return '' or why it is refused."""
        intake = self._intakes.get(run)
        if intake is None:
            return "no such run takes queries"
        if intake.waiting.qsize() >= MOST_WAITING:
            return "busy: too many queries wait"
        intake.waiting.put(query)
        return ""

    def finish(self, run: RunName) -> None:
        """Say that a remote run's load is through."""
        intake = self._intakes.get(run)
        if intake is not None:
            intake.waiting.put(None)

    def forget(self, run: RunName) -> None:
        """Drop what is kept of a run that ended."""
        with self._lock:
            self._stopped.pop(run, None)
            self._intakes.pop(run, None)
            self._on_stop.pop(run, None)


class Deadline:
    """Ends a run that is asked to, or that takes longer than it may; counts while entered."""

    def __init__(self, control: Control, run: RunName, timeout_s: float) -> None:
        self._control, self._run, self._timeout_s = control, run, timeout_s
        self._left_ns = int(timeout_s * 1e9)
        self._until_ns = 0

    def __enter__(self) -> None:
        self._until_ns = now_ns() + self._left_ns

    def __exit__(self, *_: object) -> None:
        self._left_ns = self._until_ns - now_ns()

    def check(self) -> None:
        """Raise Stopped or RunTimedOut when it is time."""
        reason = self._control.stop_reason(self._run)
        if reason is not None:
            raise Stopped(reason)
        if now_ns() >= self._until_ns:
            raise RunTimedOut(self._timeout_s, "the run")


def remote_query(words: Words) -> RemoteQuery:
    """Return a `query` command's content. Raises KeyError, ValueError, TypeError."""
    samples = np.frombuffer(words["samples"], "<i4").tolist()
    payload = words.get("payload")
    if payload is not None and len(payload) != len(samples):
        raise ValueError("as many payloads as samples are needed")
    arrived_ns = int(words.get("received_ns") or now_ns())
    return RemoteQuery(
        int(words["query"]), int(words.get("block", 0)), samples, arrived_ns, payload
    )
