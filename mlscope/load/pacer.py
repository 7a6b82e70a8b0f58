"""Pacing from a separate process, so that neither a model's threads nor the GIL can delay it."""

import mmap
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mlscope.load import issuing
from mlscope.load.errors import PacerDied

START_TIMEOUT_S = 10.0
#: a pacer that issues nothing this long after a due time counts as dead
SILENCE_S = 5.0
STOP_TIMEOUT_S = 1.0
LEAD_NS = 5_000_000


class PacerProcess:
    """Issues a schedule from a child process and wakes this process for each query.

        with PacerProcess(due_ns) as pacer:
            origin_ns = pacer.start()
            for query, issued_ns in pacer: ...

    Entering the context starts the child (about 30 ms, and 0.2 s to calibrate unless `margin_ns` is
    given), so enter it before the model is opened. Unless `raised` is False, the child runs at
    real-time priority if permitted, else at nice -20 if permitted; `priority` tells which. The
    stamp of a query is taken when it is written to the shared memory; the consumer wakes up later
    and measures that delay itself. The consumer waits without spinning. There may be one consumer;
    any thread may call `stop`.
    """

    def __init__(
        self,
        due_ns: NDArray[np.int64],
        margin_ns: int | None = None,
        raised: bool = True,
        cores: Collection[int] = (),
    ) -> None:
        """Prepare to issue at `due_ns`, int64 [queries], non-decreasing.

        `margin_ns` is the time to spin before each due time, None to calibrate it; `raised`
        requests a real-time priority. The child runs on the `cores` with these numbers, on any if
        there are none.
        """
        queries = len(due_ns)
        self._due_ns = np.ascontiguousarray(due_ns, np.int64)
        self._memory_fd = _anonymous_file((issuing.HEADER + 2 * queries) * 8)
        shared = np.frombuffer(mmap.mmap(self._memory_fd, 0), np.int64)
        self._header, self._issued_ns = shared[: issuing.HEADER], shared[issuing.HEADER + queries :]
        shared[issuing.HEADER : issuing.HEADER + queries] = self._due_ns
        self._issued_ns[:] = -1
        self._header[issuing.MARGIN_NS] = -1 if margin_ns is None else margin_ns
        self._header[issuing.PRIORITY] = raised
        self._cores = cores
        self._child: subprocess.Popen[bytes] | None = None
        self._wake_fd = self._go_fd = -1

    def __enter__(self) -> Self:
        """Start the child."""
        self._wake_fd, wake_write_fd = os.pipe()
        go_read_fd, self._go_fd = os.pipe()
        child_fds = (self._memory_fd, wake_write_fd, go_read_fd)
        arguments = [str(argument) for argument in (*child_fds, len(self._due_ns))]
        # -I and -S: the pacer must not run, or wait for, the user's site configuration.
        command = [sys.executable, "-I", "-S", issuing.__file__, *arguments]
        try:
            self._child = subprocess.Popen(
                command, pass_fds=child_fds, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        finally:
            for fd in child_fds:
                os.close(fd)
        if self._cores:
            with suppress(OSError):
                os.sched_setaffinity(self._child.pid, self._cores)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the child."""
        self.stop()
        os.close(self._go_fd)
        child = self._running()
        try:
            child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stderr:
            child.stderr.close()
        os.close(self._wake_fd)

    def start(self, origin_ns: int | None = None) -> int:
        """Wait until the child is ready, start the schedule, and return its origin in ns.

        `origin_ns` is CLOCK_MONOTONIC; if it is in the past, the queries are late, not moved. None
        means 5 ms from now. Raises PacerDied when the child does not start.
        """
        if not self._wait_for_wake_up(START_TIMEOUT_S):
            raise self._death()
        chosen_ns = time.monotonic_ns() + LEAD_NS if origin_ns is None else origin_ns
        self._header[issuing.ORIGIN_NS] = chosen_ns
        try:
            os.write(self._go_fd, b"\0")
        except BrokenPipeError as error:
            raise self._death() from error
        return chosen_ns

    def stop(self) -> None:
        """Stop issuing: the iteration ends within 50 ms, after the queries already issued."""
        self._header[issuing.STOP] = 1

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield (query, time issued in ns) of each query when it is issued.

        Ends after the last query or `stop`. Raises PacerDied when the child died or stopped
        responding.
        """
        yielded = 0
        while yielded < len(self._due_ns):
            # The order matters: a query published before the wait ends is seen in the next round.
            if (published := self.issued) > yielded:
                for query in range(yielded, published):
                    yield query, int(self._issued_ns[query])
                yielded = published
                continue
            due_ns = int(self._header[issuing.ORIGIN_NS] + self._due_ns[yielded])
            wait_s = max(0, due_ns - time.monotonic_ns()) * 1e-9 + SILENCE_S
            if self._wait_for_wake_up(wait_s) or self.issued > yielded:
                continue
            if self._header[issuing.STOP]:
                return
            raise self._death()

    def issued_ns(self) -> NDArray[np.int64]:
        """Return the times at which the queries so far were issued: a copy, int64 [issued]."""
        return self._issued_ns[: self.issued].copy()

    @property
    def issued(self) -> int:
        """The number of queries issued so far."""
        return int(self._header[issuing.PUBLISHED])

    @property
    def margin_ns(self) -> int:
        """The time the child spins before each due time; -1 until it is calibrated."""
        return int(self._header[issuing.MARGIN_NS])

    @property
    def priority(self) -> str:
        """The scheduling of the child, once started: normal, nice or fifo."""
        return issuing.PRIORITIES[self._header[issuing.PRIORITY]]

    @property
    def core_share(self) -> float:
        """CPU time over wall time of the child's schedule; valid after leaving the context."""
        return float(self._header[issuing.CPU_NS] / max(1, self._header[issuing.WALL_NS]))

    def _wait_for_wake_up(self, timeout_s: float) -> bool:
        """Wait for the child's next byte; return False if it ended or after `timeout_s`."""
        waiting = select.poll()
        waiting.register(self._wake_fd, select.POLLIN)
        return bool(waiting.poll(timeout_s * 1e3)) and bool(os.read(self._wake_fd, 65536))

    def _running(self) -> "subprocess.Popen[bytes]":
        assert self._child is not None, "enter the pacer before using it"
        return self._child

    def _death(self) -> PacerDied:
        """Return an error with the child's exit code and the last line of its output."""
        child = self._running()
        try:
            exit_code = child.wait(0.1)
        except subprocess.TimeoutExpired:
            return PacerDied(self.issued, len(self._due_ns), None)
        output = child.stderr.read().decode(errors="replace").strip() if child.stderr else ""
        message = output.splitlines()[-1] if output else ""
        return PacerDied(self.issued, len(self._due_ns), exit_code, message)


def _anonymous_file(size_bytes: int) -> int:
    """Create an unnamed file of zeros for shared memory; return its descriptor."""
    if sys.platform == "linux":
        fd = os.memfd_create("mlscope-pacer")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.truncate(fd, size_bytes)
    return fd
