"""Pacing from a process of its own, so that neither a model's threads nor the GIL can delay it."""

import mmap
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mlscope.load import issuing
from mlscope.load.errors import PacerDied

START_TIMEOUT_S = 10.0
#: longer than this behind a due time without a word, and the pacer counts as dead
SILENCE_S = 5.0
STOP_TIMEOUT_S = 1.0
LEAD_NS = 5_000_000


class PacerProcess:
    """Issues a schedule from a child process and wakes this one for each query.

        with PacerProcess(due_ns) as pacer:
            origin_ns = pacer.start()
            for query, issued_ns in pacer: ...

    The child starts on entering (about 30 ms, and 0.2 s more to calibrate unless `margin_ns` is
    given), so enter before the model is opened. Unless `raised` is False it runs at real-time
    priority where it may, else at nice -20 where it may: `priority` says which. A stamp is taken
    when the query is put into the shared memory; the consumer's wake-up comes after it and is the
    consumer's to measure. Waiting does not spin. One consumer; `stop` may be called from any
    thread.
    """

    def __init__(
        self, due_ns: NDArray[np.int64], margin_ns: int | None = None, raised: bool = True
    ) -> None:
        """Take due times (ns, rising); `raised` asks for a real-time priority."""
        queries = len(due_ns)
        self._due_ns = np.ascontiguousarray(due_ns, np.int64)
        self._memory_fd = _anonymous_file((issuing.HEADER + 2 * queries) * 8)
        words = np.frombuffer(mmap.mmap(self._memory_fd, 0), np.int64)
        self._header, self._issued_ns = words[: issuing.HEADER], words[issuing.HEADER + queries :]
        words[issuing.HEADER : issuing.HEADER + queries] = self._due_ns
        self._issued_ns[:] = -1
        self._header[issuing.MARGIN_NS] = -1 if margin_ns is None else margin_ns
        self._header[issuing.PRIORITY] = raised
        self._child: subprocess.Popen[bytes] | None = None
        self._wake_fd = self._go_fd = -1

    def __enter__(self) -> Self:
        """Start the child."""
        self._wake_fd, wake_write_fd = os.pipe()
        go_read_fd, self._go_fd = os.pipe()
        given = (self._memory_fd, wake_write_fd, go_read_fd)
        arguments = [str(each) for each in (*given, len(self._due_ns))]
        # -I and -S: nothing of the user's site may run, or be waited for, in the pacer.
        command = [sys.executable, "-I", "-S", issuing.__file__, *arguments]
        try:
            self._child = subprocess.Popen(
                command, pass_fds=given, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        finally:
            for fd in given:
                os.close(fd)
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
        """Wait for the child to be ready, start the schedule, and return its origin.

        `origin_ns` is CLOCK_MONOTONIC and may be in the past: then queries are late, not moved.
        Without one it is 5 ms from now. Raises PacerDied when the child does not come up.
        """
        if not self._woken(START_TIMEOUT_S):
            raise self._death()
        chosen_ns = time.monotonic_ns() + LEAD_NS if origin_ns is None else origin_ns
        self._header[issuing.ORIGIN_NS] = chosen_ns
        try:
            os.write(self._go_fd, b"\0")
        except BrokenPipeError as error:
            raise self._death() from error
        return chosen_ns

    def stop(self) -> None:
        """Issue nothing more: iteration ends within 50 ms, after what is issued already."""
        self._header[issuing.STOP] = 1

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield each query and when it was issued, as it is issued; wait in between.

        Ends after the last query or a stop; raises PacerDied where the child died or fell silent.
        """
        taken = 0
        while taken < len(self._due_ns):
            published = self._await_more(taken)
            if published == taken:
                return
            for query in range(taken, published):
                yield query, int(self._issued_ns[query])
            taken = published

    def issued_ns(self) -> NDArray[np.int64]:
        """When each query so far was issued: a copy, int64 [issued]."""
        return self._issued_ns[: self.issued].copy()

    @property
    def issued(self) -> int:
        """How many queries were issued so far."""
        return int(self._header[issuing.PUBLISHED])

    @property
    def margin_ns(self) -> int:
        """How long before each due time the child spins; -1 until it is calibrated."""
        return int(self._header[issuing.MARGIN_NS])

    @property
    def priority(self) -> str:
        """How the child is scheduled, once started: normal, nice or fifo."""
        return issuing.PRIORITIES[self._header[issuing.PRIORITY]]

    @property
    def core_share(self) -> float:
        """CPU time over wall time of the child's schedule; read it after leaving the pacer."""
        return float(self._header[issuing.CPU_NS] / max(1, self._header[issuing.WALL_NS]))

    def _await_more(self, taken: int) -> int:
        """How many are issued, once more than `taken` are; `taken` where it was stopped."""
        while True:
            # The order matters: a query published before the read ends is seen by the next look.
            if (published := self.issued) > taken:
                return published
            due_ns = int(self._header[issuing.ORIGIN_NS] + self._due_ns[taken])
            wait_s = max(0, due_ns - time.monotonic_ns()) * 1e-9 + SILENCE_S
            if self._woken(wait_s) or self.issued > taken:
                continue
            if self._header[issuing.STOP]:
                return taken
            raise self._death()

    def _woken(self, timeout_s: float) -> bool:
        """Wait for the child's next byte; False when it has ended or `timeout_s` has passed."""
        waiting = select.poll()
        waiting.register(self._wake_fd, select.POLLIN)
        return bool(waiting.poll(timeout_s * 1e3)) and bool(os.read(self._wake_fd, 65536))

    def _running(self) -> "subprocess.Popen[bytes]":
        assert self._child is not None, "enter the pacer before using it"
        return self._child

    def _death(self) -> PacerDied:
        """Say how the child ended: its exit code and the last line of what it wrote."""
        child = self._running()
        try:
            exit_code = child.wait(0.1)
        except subprocess.TimeoutExpired:
            return PacerDied(self.issued, len(self._due_ns), None)
        words = child.stderr.read().decode(errors="replace").strip() if child.stderr else ""
        message = words.splitlines()[-1] if words else ""
        return PacerDied(self.issued, len(self._due_ns), exit_code, message)


def _anonymous_file(size_bytes: int) -> int:
    """Make a file of zeros without a name, for sharing; return its descriptor."""
    if sys.platform == "linux":
        fd = os.memfd_create("mlscope-pacer")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.truncate(fd, size_bytes)
    return fd
