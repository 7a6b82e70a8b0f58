"""Wait for time or for signals without polling: a child's end, or the wish to stop."""

import select
import signal
import socket
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Waker:
    """Owns this process's signals while it is entered; main thread only."""

    def __init__(self) -> None:
        """Open the pair of sockets that signals write to."""
        self.stop_wishes = 0
        self._reader, self._writer = socket.socketpair()
        self._before: list[tuple[signal.Signals, Any]] = []
        self._descriptor_before = -1

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self.stop_wishes += 1

    def wait(self, timeout_s: float) -> None:
        """Return after `timeout_s` or as soon as a signal has come."""
        readable, _, _ = select.select([self._reader], [], [], max(0.0, timeout_s))
        if readable:
            self._reader.recv(4096)

    def __enter__(self) -> Self:
        """Hear signals from now on."""
        for end in (self._reader, self._writer):
            end.setblocking(False)
        self._descriptor_before = signal.set_wakeup_fd(
            self._writer.fileno(), warn_on_full_buffer=False
        )
        hear: Callable[[int, FrameType | None], None] = self._heard
        self._before = [(one, signal.signal(one, hear)) for one in (*_STOP, signal.SIGCHLD)]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hear them as before."""
        for number, action in self._before:
            signal.signal(number, action)
        signal.set_wakeup_fd(self._descriptor_before)
        self._reader.close()
        self._writer.close()
