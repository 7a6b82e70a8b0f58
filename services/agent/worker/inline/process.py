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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlscope.tracing.application import USER_SPANS, UserSpan, now_ns
from services.agent.collectors.nvtx.collector import RANGE_RECORDER
from services.agent.errors import CodeFailed, CodeRaised
from services.agent.link.allowances import InlineLimits
from services.agent.worker.inline.child import (
    FATAL,
    OK,
    RAISED,
    STORED,
    WANTS_ANSWER,
    WANTS_RANGES,
    WANTS_SPANS,
)
from services.agent.worker.inline.wire import (
    FrameTooLarge,
    TooManyValues,
    WireBroken,
    packed,
    receive,
    send,
)
from services.agent.worker.spawning import spawn

_START_S = 60.0
_TRACE_S = 5.0
_MOST_TRACE_BYTES = 1 << 16
_MOST_CALL_BYTES = 1 << 40
_SLACK_BYTES = 4096
_MEMORY_FACTOR = 8
_MOST_REASON_CHARACTERS = 1000
_MOST_NAME_CHARACTERS = 200
_MOST_LINES = 10**6
_ROOT = Path(__file__).resolve().parents[4]
_BOOT = (
    "import sys; root = sys.argv[1]; sys.path.insert(0, root); "
    "from services.agent.worker.inline.child import main; sys.path.remove(root); main(sys.argv[2:])"
)
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PASSED_VARIABLES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "ORT_DISABLE_TELEMETRY",
)


@dataclass(frozen=True, slots=True)
class _Child:
    """A running process, this side of its channel, and the end of its trace to read from."""

    process: subprocess.Popen[bytes]
    channel: socket.socket
    trace_fd: int
    #: set when the process has ended
    has_ended: threading.Event

    @classmethod
    def start(cls) -> "_Child":
        """Start a process that waits for its order. Raises OSError."""
        variables = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        environment = {**variables, **dict.fromkeys(_ONE_THREAD, "1")}
        has_ended = threading.Event()
        channel, child_channel = socket.socketpair()
        trace_fd, child_trace_fd = os.pipe()
        os.set_blocking(trace_fd, False)
        descriptors = (child_channel.fileno(), child_trace_fd)
        command = [sys.executable, "-I", "-c", _BOOT, str(_ROOT), *map(str, descriptors)]
        with contextlib.ExitStack() as of_child, contextlib.ExitStack() as undo:
            of_child.callback(child_channel.close)
            of_child.callback(os.close, child_trace_fd)
            undo.callback(channel.close)
            undo.callback(os.close, trace_fd)
            process = spawn(command, descriptors, environment, has_ended)
            undo.pop_all()
        return cls(process, channel, trace_fd, has_ended)

    def exit_code(self) -> int | None:
        """Wait for its end; return its exit code, None where it goes on after some seconds."""
        try:
            return self.process.wait(_TRACE_S)
        except subprocess.TimeoutExpired:
            return None

    def line_in(self, names: Iterable[str]) -> int:
        """Return the line of the codes of these `names` that runs or ran last; 0: unknown."""
        joined = "|".join(map(re.escape, names))
        pattern = re.compile(rf'File "<(?:{joined})>", line (\d{{1,6}})\b')
        with contextlib.suppress(OSError):
            self.process.send_signal(signal.SIGUSR1)
        text, until_s = b"", time.monotonic() + _TRACE_S
        while len(text) < _MOST_TRACE_BYTES and time.monotonic() < until_s:
            piece = None
            with contextlib.suppress(BlockingIOError):
                piece = os.read(self.trace_fd, _MOST_TRACE_BYTES)
            if piece:
                text += piece
                continue
            is_closed = piece is not None or self.process.poll() is not None
            if is_closed or pattern.search(text.decode(errors="replace")):
                break
            time.sleep(0.01)
        match = pattern.search(text.decode(errors="replace"))
        return int(match[1]) if match else 0

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.has_ended.set()
        self.channel.close()
        os.close(self.trace_fd)


class InlineProcess:
    """The process for the codes of one side of a model; called by one thread at a time.

    A call that exceeds a limit ends the process; the next call starts another.
    """

    def __init__(
        self, codes: Mapping[str, str], env: Mapping[str, Any], limits: InlineLimits
    ) -> None:
        """Take `codes` by name in their order, the `env` that they share, and their `limits`."""
        self._codes, self._env, self._limits = dict(codes), dict(env), limits
        self._child: _Child | None = None

    def start(self) -> None:
        """Start the process and define its codes, unless it runs. Raises CodeFailed."""
        self._started()

    def _started(self) -> _Child:
        if self._child is not None:
            return self._child
        names = "/".join(self._codes)
        child = self._child = _Child.start()
        limits = {
            "memory_bytes": self._limits.memory_bytes,
            "output_bytes": self._limits.output_bytes,
            "cpu_s": self._limits.cpu_s,
        }
        order = {"codes": self._codes, "env": self._env, "limits": limits}
        answer = self._exchange(child, names, order, _START_S + self._limits.timeout_s)
        if answer[0] != OK:
            self.close()
            raise CodeFailed(names, _line_and_reason(answer))
        return child

    def call(self, name: str, arguments: tuple[Any, ...], *, wants_answer: bool) -> Any:
        """Return the result of a function for `arguments`; None without `wants_answer`.

        `name` is the manifest's field of the function. Raises CodeRaised for an error of the code,
        CodeFailed when a limit ended it.
        """
        child = self._started()
        flags = WANTS_ANSWER * wants_answer + WANTS_SPANS * USER_SPANS.is_open
        flags += WANTS_RANGES * RANGE_RECORDER.is_open
        began_ns = now_ns()
        call = [name, flags, *arguments]
        answer = self._exchange(child, name, call, self._limits.timeout_s)
        if answer[0] == RAISED:
            raise CodeRaised(name, _line_and_reason(answer))
        if USER_SPANS.is_open:
            for span in spans_within_call(answer[2:3], began_ns, now_ns()):
                USER_SPANS.add(span)
        if RANGE_RECORDER.is_open:
            counts = answer[4:5]
            is_count = bool(counts) and type(counts[0]) is int and 0 <= counts[0] < _MOST_LINES
            ranges = spans_within_call(answer[3:4], began_ns, now_ns())
            RANGE_RECORDER.extend(ranges, counts[0] if is_count else 0)
        return answer[1] if answer[0] == OK else None

    def close(self) -> None:
        """End the process, if it runs."""
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def _exchange(self, child: _Child, name: str, value: Any, timeout_s: float) -> list[Any]:
        """Send a value and return the answer, a list that begins with a tag. Raises CodeFailed.

        Raises TypeError for a value that can't be sent.
        """
        deadline_s = time.monotonic() + timeout_s
        most_bytes = self._limits.output_bytes + _SLACK_BYTES
        try:
            send(child.channel, packed(value, _MOST_CALL_BYTES), deadline_s)
            memory_bytes = most_bytes * _MEMORY_FACTOR
            answer = receive(child.channel, most_bytes, deadline_s, memory_bytes)
        except TimeoutError:
            reason = f"took longer than {timeout_s:g} s"
        except (FrameTooLarge, TooManyValues) as error:
            reason = f"its answer has {error}"
        except WireBroken as error:
            reason = self._ending(child) or str(error)
        else:
            if isinstance(answer, list) and answer and answer[0] in (OK, STORED, RAISED, FATAL):
                return answer
            reason = "answered nonsense"
        line = child.line_in(self._codes)
        self.close()
        raise CodeFailed(name, f"line {line}: {reason}" if line else reason)

    def _ending(self, child: _Child) -> str:
        """Return how the process ended; '' where it goes on."""
        code = child.exit_code()
        if code is None:
            return ""
        if code == -signal.SIGXCPU:
            return f"used more than {self._limits.cpu_s} s of processor time"
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with {code}"


def spans_within_call(values: list[Any], began_ns: int, ended_ns: int) -> Iterator[UserSpan]:
    """Yield the spans that code recorded within its call, from `began_ns` to `ended_ns`.

    `values` has their rows as its only item, if any. Malformed rows, and spans outside of the call,
    are left out.
    """
    rows = values[0] if values and isinstance(values[0], list) else ()
    thread = threading.get_native_id()
    for row in rows:
        if not isinstance(row, list) or list(map(type, row)) != [str, int, int, dict]:
            continue
        name, start_ns, duration_ns, attributes = row
        if began_ns <= start_ns and start_ns + max(duration_ns, 0) <= ended_ns:
            own_name = name[:_MOST_NAME_CHARACTERS]
            yield UserSpan(own_name, start_ns, max(duration_ns, -1), thread, attributes)


def _line_and_reason(answer: list[Any]) -> str:
    """Return `line N: reason` of an answer with an error."""
    line, reason = (*answer[1:], 0, "")[:2]
    text = reason[:_MOST_REASON_CHARACTERS] if isinstance(reason, str) else "gives no reason"
    is_line = isinstance(line, int) and 0 < line < _MOST_LINES
    return f"line {line}: {text}" if is_line else text
