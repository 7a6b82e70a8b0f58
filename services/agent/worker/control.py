"""What reaches a worker's runs from outside: stops, remote queries, the end of a load."""

import queue
import threading
from collections.abc import Callable

from mlscope.tracing.clock import now_ns
from services.agent.errors import RunTimedOut, Stopped
from services.agent.link.messages import MOST_WAITING, AttemptKey, IssueQuery

RemoteQueries = queue.SimpleQueue[IssueQuery | None]
"""The queries of one remote run that wait; None is the end of its load."""


class Control:
    """Stops and remote queries: put in by the thread that listens, taken by the one that works."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stops: dict[AttemptKey, str] = {}
        self._queries: dict[AttemptKey, RemoteQueries] = {}
        self._on_stop: dict[AttemptKey, Callable[[], None]] = {}

    def stop(self, key: AttemptKey, reason: str) -> None:
        """Ask a run to end, also one that has not begun."""
        with self._lock:
            self._stops[key] = reason
            queries, on_stop = self._queries.get(key), self._on_stop.get(key)
        if queries is not None:
            queries.put(None)
        if on_stop is not None:
            on_stop()

    def stop_reason(self, key: AttemptKey) -> str | None:
        """Return why a run is to end, or None."""
        return self._stops.get(key)

    def call_on_stop(self, key: AttemptKey, on_stop: Callable[[], None]) -> None:
        """Call `on_stop` when the run is asked to end."""
        with self._lock:
            self._on_stop[key] = on_stop

    def accept_queries(self, key: AttemptKey) -> RemoteQueries:
        """Begin to accept a remote run's queries; return the queue they wait in."""
        with self._lock:
            return self._queries.setdefault(key, queue.SimpleQueue())

    def offer(self, query: IssueQuery) -> str:
        """Accept a query; return '' or why it is refused."""
        queries = self._queries.get(query.key)
        if queries is None:
            return "no open run has this id"
        if queries.qsize() >= MOST_WAITING:
            return "busy: too many queries are waiting"
        queries.put(query)
        return ""

    def finish(self, key: AttemptKey) -> None:
        """End a remote run's load."""
        queries = self._queries.get(key)
        if queries is not None:
            queries.put(None)

    def forget(self, key: AttemptKey) -> None:
        """Drop what is kept of a run that has ended."""
        with self._lock:
            self._stops.pop(key, None)
            self._queries.pop(key, None)
            self._on_stop.pop(key, None)


class Deadline:
    """Ends a run that is stopped or exceeds its time limit; time counts while it is entered."""

    def __init__(self, control: Control, key: AttemptKey, timeout_s: float) -> None:
        """Limit the run with a `key` to `timeout_s` seconds; `control` has its stops."""
        self._control, self._key, self._timeout_s = control, key, timeout_s
        self._remaining_ns = int(timeout_s * 1e9)
        self._until_ns = 0

    def __enter__(self) -> None:
        self._until_ns = now_ns() + self._remaining_ns

    def __exit__(self, *_: object) -> None:
        self._remaining_ns = self._until_ns - now_ns()

    def check(self) -> None:
        """Raise Stopped or RunTimedOut where the run must end."""
        reason = self._control.stop_reason(self._key)
        if reason is not None:
            raise Stopped(reason)
        if now_ns() >= self._until_ns:
            raise RunTimedOut(self._timeout_s, "the run")
