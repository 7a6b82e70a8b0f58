"""A process of inline Python as its worker holds it: started, called, watched, ended (I/O)."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from mlscope.tracing.application import NOTEBOOK, Note, now_ns
from services.agent.allowances import InlineLimits
from services.agent.collectors.nvtx import EARS
from services.agent.errors import CodeFailed, CodeRaised
from services.agent.inline_child import (
    FATAL,
    KEPT,
    OK,
    RAISED,
    WANTS_ANSWER,
    WANTS_NOTES,
    WANTS_RANGES,
)
from services.agent.inline_wire import FrameTooLarge, WireBroken, packed, receive, send

_START_S = 60.0
_TRACE_S = 5.0
_MOST_TRACE = 1 << 16
_SLACK_BYTES = 4096
_MOST_REASON = 1000
_MOST_NAME = 200
_MOST_LINES = 10**6
_ROOT = Path(__file__).resolve().parent.parent.parent
_BOOT = (
    "import sys; root = sys.argv[1]; sys.path.insert(0, root); "
    "from services.agent.inline_child import main; sys.path.remove(root); main(sys.argv[2:])"
)
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV")


class InlineProcess:
    """The codes of one side of a model; called by one thread at a time.

    A call that breaks a limit ends the process; the next call starts another.
    """

    def __init__(
        self, codes: Mapping[str, str], env: Mapping[str, Any], limits: InlineLimits
    ) -> None:
        self._codes, self._env, self._limits = dict(codes), dict(env), limits
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket
        self._trace_fd = -1
        self._is_ended = threading.Event()

    def start(self) -> None:
        """Start the process and have its codes defined. Raises CodeFailed."""
        names = "/".join(self._codes)
        self._spawn()
        limits = {
            "memory_bytes": self._limits.memory_bytes,
            "output_bytes": self._limits.output_bytes,
            "cpu_s": self._limits.cpu_s,
        }
        order = {"codes": self._codes, "env": self._env, "limits": limits}
        told = self._exchange(names, order, _START_S + self._limits.timeout_s)
        if told[0] != OK:
            self.close()
            raise CodeFailed(names, _at(told))

    def call(self, name: str, given: tuple[Any, ...], *, wants_answer: bool) -> Any:
        """Return what a function gives for the data, or None where no answer is wanted.

        Raises CodeRaised for what the code raises, CodeFailed when a limit ended it.
        """
        if self._process is None:
            self.start()
        wishes = WANTS_ANSWER * wants_answer + WANTS_NOTES * NOTEBOOK.is_open
        wishes += WANTS_RANGES * EARS.is_open
        began_ns = now_ns()
        told = self._exchange(name, [name, wishes, *given], self._limits.timeout_s)
        if told[0] == RAISED:
            raise CodeRaised(name, _at(told))
        if NOTEBOOK.is_open:
            for note in notes_of(told[2:3], began_ns, now_ns()):
                NOTEBOOK.add(note)
        if EARS.is_open:
            EARS.hear_of(notes_of(told[3:4], began_ns, now_ns()), _count(told[4:5]))
        return told[1] if told[0] == OK else None

    def close(self) -> None:
        """End the process, if it runs."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        self._is_ended.set()
        self._channel.close()
        os.close(self._trace_fd)

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        trace_fd, their_trace_fd = os.pipe()
        os.set_blocking(trace_fd, False)
        kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
        given = (theirs.fileno(), their_trace_fd)
        command = [sys.executable, "-I", "-c", _BOOT, str(_ROOT), *(str(fd) for fd in given)]
        environ = {**kept, **dict.fromkeys(_ONE_THREAD, "1")}
        self._is_ended = ended = threading.Event()
        try:
            self._process = _started(command, given, environ, ended)
        except BaseException:
            ours.close()
            os.close(trace_fd)
            raise
        finally:
            theirs.close()
            os.close(their_trace_fd)
        self._channel, self._trace_fd = ours, trace_fd

    def _exchange(self, name: str, said: Any, within_s: float) -> list[Any]:
        """Say something and return the answer, a list that begins with a word. Raises CodeFailed.

        TypeError from what is said is the caller's.
        """
        deadline_s = time.monotonic() + within_s
        most_bytes = self._limits.output_bytes + _SLACK_BYTES
        try:
            send(self._channel, packed(said, 1 << 40), deadline_s)
            told = receive(self._channel, most_bytes, deadline_s)
        except TimeoutError:
            reason = f"took longer than {within_s:g} s"
        except FrameTooLarge as error:
            reason = f"its answer has {error}"
        except WireBroken as error:
            reason = self._end_of_it(str(error))
        else:
            if isinstance(told, list) and told and told[0] in (OK, KEPT, RAISED, FATAL):
                return told
            reason = "answered nonsense"
        line = self._line()
        self.close()
        raise CodeFailed(name, f"{line}{reason}")

    def _end_of_it(self, said: str) -> str:
        """Return how the process ended, or what else broke the channel."""
        assert self._process is not None
        try:
            code = self._process.wait(_TRACE_S)
        except subprocess.TimeoutExpired:
            return said
        if code == -signal.SIGXCPU:
            return f"used more than {self._limits.cpu_s} s of processor time"
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with {code}"

    def _line(self) -> str:
        """Return `line N: ` of the code that runs or ran last, '' where it can't be told."""
        assert self._process is not None
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGUSR1)
        text, until_s = b"", time.monotonic() + _TRACE_S
        while len(text) < _MOST_TRACE and time.monotonic() < until_s:
            with contextlib.suppress(BlockingIOError):
                piece = os.read(self._trace_fd, _MOST_TRACE)
                text += piece
                if not piece:
                    break
                continue
            if self._found(text) or self._process.poll() is not None:
                break
            time.sleep(0.01)
        line = self._found(text)
        return f"line {line}: " if line else ""

    def _found(self, text: bytes) -> int:
        names = "|".join(re.escape(name) for name in self._codes)
        found = re.search(
            rf'File "<(?:{names})>", line (\d{{1,6}})\b', text.decode(errors="replace")
        )
        return int(found[1]) if found else 0


def notes_of(told: list[Any], began_ns: int, ended_ns: int) -> Iterator[Note]:
    """Yield the spans that code said within its call; what is none, or lies outside, is not.

    `told` has their rows as its one value, where they came.
    """
    notes = told[0] if told and isinstance(told[0], list) else ()
    thread = threading.get_native_id()
    for note in notes:
        if not isinstance(note, list) or list(map(type, note)) != [str, int, int, dict]:
            continue
        name, start_ns, duration_ns, attributes = note
        if began_ns <= start_ns and start_ns + max(duration_ns, 0) <= ended_ns:
            yield Note(name[:_MOST_NAME], start_ns, max(duration_ns, -1), thread, attributes)


def _count(told: list[Any]) -> int:
    return told[0] if told and type(told[0]) is int and 0 <= told[0] < _MOST_LINES else 0


def _at(told: list[Any]) -> str:
    """Return `line N: reason` of an answer that tells of an error."""
    line, reason = (*told[1:], 0, "")[:2]
    said = reason[:_MOST_REASON] if isinstance(reason, str) else "gives no reason"
    is_line = isinstance(line, int) and 0 < line < _MOST_LINES
    return f"line {line}: {said}" if is_line else said


def _started(
    command: Sequence[str], fds: Sequence[int], environ: Mapping[str, str], ended: threading.Event
) -> subprocess.Popen[bytes]:
    """Start a process from a thread that waits until it has `ended`. Raises OSError.

    The kernel ends the child with the thread that started it, and callers' threads come and go.
    """
    started: Future[subprocess.Popen[bytes]] = Future()

    def hold() -> None:
        try:
            process = subprocess.Popen(
                command,
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=environ,
            )
        except BaseException as error:  # noqa: BLE001  # raised again where it is awaited
            started.set_exception(error)
            return
        started.set_result(process)
        ended.wait()

    threading.Thread(target=hold, name="inline", daemon=True).start()
    return started.result()
