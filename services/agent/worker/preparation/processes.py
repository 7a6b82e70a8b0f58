"""The preparing processes as their worker holds them: started, forked, ended (I/O)."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import msgpack

from services.agent.errors import ProcessesUnavailable
from services.agent.worker.preparation.fork_requests import FINISH, FORK, MAP, READY, REAP
from services.agent.worker.preparation.layout import ArenaLayout
from services.agent.worker.preparation.order import PreparationOrder
from services.agent.worker.spawning import spawn

_READY_S, _ANSWER_S, _CLOSE_S = 60.0, 5.0, 5.0
_MOST_ANSWER_BYTES = 1 << 16
_ROOT = Path(__file__).resolve().parents[4]
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from services.agent.worker.preparation.fork_server import main; main(sys.argv[2:])"
)
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class ForkedProcess:
    """A preparing process, and the socket for its orders."""

    pid: int
    orders: socket.socket

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, or is about to: it has closed its orders."""
        try:
            return self.orders.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def kill(self) -> None:
        """End it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class PreparingProcesses:
    """The fork server of one session; called by one thread at a time."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        channel: socket.socket,
        has_ended: threading.Event,
    ) -> None:
        """Take the `process` of a server and the `channel` to it; set `has_ended` once it ended."""
        self._process, self._channel, self._has_ended = process, channel, has_ended

    @classmethod
    def start(cls, order: PreparationOrder) -> Self:
        """Start a server that opens the dataset of an `order`; it is not waited for.

        Raises ProcessesUnavailable.
        """
        channel, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        has_ended = threading.Event()
        try:
            order.scratch.mkdir(parents=True, exist_ok=True)
            # The server reads its order from a file in memory.
            order_fd = os.memfd_create("mlscope-order", os.MFD_CLOEXEC)
            with server_end, os.fdopen(order_fd, "w+b") as file:
                file.write(order.packed())
                file.seek(0)
                descriptors = (server_end.fileno(), file.fileno())
                numbers = map(str, (*descriptors, os.getpid()))
                command = [sys.executable, "-P", "-c", _BOOT, str(_ROOT), *numbers]
                environment = {**os.environ, **_ONE_THREAD}
                process = spawn(command, descriptors, environment, has_ended, stderr=None)
        except OSError as error:
            channel.close()
            raise ProcessesUnavailable(str(error)) from error
        return cls(process, channel, has_ended)

    def await_ready(self) -> None:
        """Wait until the server has opened the dataset. Raises ProcessesUnavailable."""
        state, reason = self._received(_READY_S)
        if state != READY:
            raise ProcessesUnavailable(reason)

    def keep_on(self, cores: frozenset[int]) -> None:
        """Keep the server, and the processes forked from now on, on some `cores`."""
        with contextlib.suppress(OSError):  # not allowed, or it has ended, which is seen later
            os.sched_setaffinity(self._process.pid, cores)

    def map(
        self,
        arena_fd: int,
        layout: ArenaLayout,
        names: Sequence[str],
        wakes: Sequence[socket.socket],
    ) -> None:
        """Map the arena of the descriptor `arena_fd`, which has a `layout`.

        `names` are those of the inputs in samples; `wakes` has a socket for each slot.
        Raises ProcessesUnavailable.
        """
        fields = {"layout": layout.fields(), "names": list(names)}
        self._answer_to(MAP, fields, [arena_fd, *(wake.fileno() for wake in wakes)])

    def fork(self, number: int) -> ForkedProcess:
        """Return a new process, which is to be known by its `number`. Raises ProcessesUnavailable.

        An arena was mapped before.
        """
        return self._forked(FORK, number, socket.SOCK_SEQPACKET)

    def fork_finishing(self) -> ForkedProcess:
        """Return a new process that post-processes. Raises ProcessesUnavailable."""
        return self._forked(FINISH, 0, socket.SOCK_STREAM)

    def _forked(self, request: str, number: int, kind: socket.SocketKind) -> ForkedProcess:
        orders, child_end = socket.socketpair(socket.AF_UNIX, kind)
        with child_end:
            try:
                pid = self._answer_to(request, number, [child_end.fileno()])
            except ProcessesUnavailable:
                orders.close()
                raise
        return ForkedProcess(pid, orders)

    def end(self, process: ForkedProcess) -> str:
        """End a process, unless it has ended by itself; return how it did."""
        if not process.has_ended:
            process.kill()
        process.orders.close()
        try:
            code = self._answer_to(REAP, process.pid)
        except ProcessesUnavailable as error:
            return error.reason
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with {code}"

    def close(self) -> None:
        """End the server and every process forked from it."""
        self._channel.close()
        try:
            self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._has_ended.set()

    def _answer_to(self, request: str, argument: Any, descriptors: Sequence[int] = ()) -> int:
        body = msgpack.packb([request, argument])
        try:
            socket.send_fds(self._channel, [body], list(descriptors))
        except OSError as error:
            raise ProcessesUnavailable(str(error)) from error
        answer = self._received(_ANSWER_S)
        assert isinstance(answer, int)
        return answer

    def _received(self, timeout_s: float) -> Any:
        self._channel.settimeout(timeout_s)
        try:
            body = self._channel.recv(_MOST_ANSWER_BYTES)
        except TimeoutError as error:
            # A late answer would be taken for that to the next request.
            self._process.kill()
            self._channel.close()
            reason = f"the process they are forked from did not answer within {timeout_s:g} s"
            raise ProcessesUnavailable(reason) from error
        except OSError as error:
            raise ProcessesUnavailable(str(error)) from error
        if not body:
            raise ProcessesUnavailable("the process they are forked from has ended")
        return msgpack.unpackb(body)
