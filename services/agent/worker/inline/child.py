"""The process of inline Python: it reads code, gives up its rights, and then only computes.

    python -I -c BOOT ROOT CHANNEL_FD TRACE_FD

The first frame it receives is the order: codes by name, `env`, and limits. The modules that the
code imports are imported under a filter of system calls (`seccomp`; without it there is no
inline Python) and a limit on memory: files may be opened for reading only. A process started by
root becomes a user of its own, whose only capability is to read modules wherever they are. Before
the code runs, that capability and the rights to open files and to ask about them end. The code can
then open, start and change nothing outside the process, signal only itself, and write only to the
channel, the trace and /dev/null. Each call has a limit on processor time, which code can raise up
to that of the process; the process ends with its worker, whatever it does.
"""

import ast
import contextlib
import ctypes
import errno
import faulthandler
import importlib
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.machinery import BuiltinImporter
from itertools import chain
from typing import Any

from mlscope.tracing.application import USER_SPANS
from services.agent.worker.inline.wire import (
    SAMPLES,
    Buffer,
    FrameTooLarge,
    WireBroken,
    packed,
    receive,
    send,
)
from services.agent.worker.seccomp.inline_code import filter_calls, filter_paths

OK, STORED, RAISED, FATAL = "ok", "kept", "raised", "fatal"
"""The first item of an answer; after `raised` and `fatal` follow a line (0: none) and a reason."""

WANTS_ANSWER, WANTS_SPANS, WANTS_RANGES = 1, 2, 4
"""Flags of a call: whether it wants the data, spans by mlscope.tracing, and NVTX ranges."""

_MOST_ORDER_BYTES = 1 << 40
_MOST_SPANS = 1000
_MOST_REASON_CHARACTERS = 500
_MOST_LINE_CHARACTERS = 80
_PR_SET_PDEATHSIG = 1
_MOST_CPU_S = 24 * 3600
_IMPORTS_BYTES = 16 << 30
_PR_SET_KEEPCAPS = 8
_CAPABILITIES = struct.Struct("=6I")
_CAPABILITIES_HEADER = struct.pack("=Ii", 0x20080522, 0)  # version 3, this process
_CAP_READ = 0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH

_FIRST_UID = 0x70000000
_NOBODY = 65534
_HINTS: Mapping[int, str] = {
    errno.EPERM: "inline code may only compute: no files, no connections, no other processes",
    errno.EAGAIN: "inline code may not start processes or threads",
    errno.EMFILE: "inline code may not open files or connections",
    errno.EFBIG: "inline code may not write files",
}

Function = Callable[[Any, Any], Any]


class InlineFunctions:
    """The functions of an order's codes, which share their global names and `env`."""

    def __init__(self, codes: Mapping[str, str], env: dict[str, Any]) -> None:
        self._lines = {name: text.splitlines() for name, text in codes.items()}
        self._codes, self._env = codes, env
        self._names: dict[str, Any] = {"__name__": "inline"}
        self._functions: dict[str, Function] = {}
        self._last_result: Any = None

    def define(self) -> None:
        """Run each code, in order, and find its function. Raises whatever the code does."""
        for name, text in self._codes.items():
            self._names.pop("fun", None)
            exec(compile(text, f"<{name}>", "exec"), self._names)  # noqa: S102  # what it is for
            function = self._names.get("fun") or self._names.get(name)
            if not callable(function):
                raise NameError("there is no function: write def fun(env, data)")
            self._functions[name] = function

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Return the result of a function for the data in `arguments`, or for the last result.

        The `before_` and `after_` functions may return None: the data stay as they are.
        """
        data = arguments[0] if arguments else self._last_result
        if len(arguments) > 1:
            self._env[SAMPLES] = arguments[1]
        result = self._functions[name](self._env, data)
        may_return_none = name.startswith(("before_", "after_"))
        self._last_result = data if result is None and may_return_none else result
        if self._last_result is None:
            raise TypeError("returned None: the function must return the data")
        return self._last_result

    def line_and_reason(self, error: BaseException) -> tuple[int, str]:
        """Return the line of the code that raised an error (0: none), and the reason."""
        file, line = "", 0
        if isinstance(error, SyntaxError):
            file, line = str(error.filename), error.lineno or 0
        trace = error.__traceback__
        while trace is not None:
            name = trace.tb_frame.f_code.co_filename
            if name[1:-1] in self._lines:
                file, line = name, trace.tb_lineno
            trace = trace.tb_next
        message = _message_of(error)
        lines = self._lines.get(file[1:-1], [])
        shown = lines[line - 1].strip()[:_MOST_LINE_CHARACTERS] if 0 < line <= len(lines) else ""
        reason = f"{type(error).__name__}{message and ': '}{message}"[:_MOST_REASON_CHARACTERS]
        return line, f"{reason} in `{shown}`" if shown else reason

    def answer(
        self,
        name: str,
        arguments: list[Any],
        limit_bytes: int,
        flags: int,
        recording: AbstractContextManager[list[Any]],
    ) -> list[Buffer]:
        """Return the frame, of at most `limit_bytes`, that answers a call of the function `name`.

        `arguments` as in `call`; `flags` say what the worker wants, and `recording` gives the NVTX
        ranges. Code that fails is answered with its line and the reason.
        """
        try:
            _switch_spans(is_open=bool(flags & WANTS_SPANS))
            with recording as ranges:
                result = self.call(name, tuple(arguments))
            spans = [_switch_spans(is_open=False), *ranges]
            answer = [OK, result, *spans] if flags & WANTS_ANSWER else [STORED, None, *spans]
            return packed(answer, limit_bytes)
        except FrameTooLarge as error:
            failure: tuple[int, str] = (0, f"its answer has {error}")
        except BaseException as error:  # noqa: BLE001  # sent to the worker, whatever it is
            failure = self.line_and_reason(error)
        return packed([RAISED, *failure], _MOST_ORDER_BYTES)


def _message_of(error: BaseException) -> str:
    """Return an error's text, with a hint where a limit of inline code is the cause."""
    try:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:  # noqa: BLE001  # the code's own class may do anything
        message = ""
    hint = _HINTS.get(getattr(error, "errno", 0), "") if isinstance(error, OSError) else ""
    if isinstance(error, MemoryError):
        hint = "inline code has used up its memory"
    return f"{message} ({hint})" if message and hint else message or hint


def imports_in(codes: Mapping[str, str]) -> Iterator[str]:
    """Yield the modules that codes import by name. Raises SyntaxError."""
    trees = (ast.parse(text, f"<{name}>") for name, text in codes.items())
    for node in chain.from_iterable(map(ast.walk, trees)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def import_modules(names: Sequence[str]) -> None:
    """Import modules, except programs; the code's own statement reports those that can't be."""
    for name in names:
        if "__main__" in name.split("."):
            continue
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    pillow_image = sys.modules.get("PIL.Image")
    if pillow_image is not None:
        pillow_image.init()  # otherwise formats are imported when the first image is opened


def restrict(memory_bytes: int) -> None:
    """Give up every right except to compute, and to read files for imports.

    Raises OSError where root's rights can't be given up, and FilterMissing, an OSError.
    """
    worker = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
        os.setgroups([])
        try:
            _become_user(_FIRST_UID + os.getpid())
        except OSError:
            _become_user(_NOBODY)
        libc.prctl(_PR_SET_KEEPCAPS, 0, 0, 0, 0)
    _keep_capabilities(_CAP_READ)
    # After the change of user, which resets it.
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError("can't be made to end with its worker")
    if os.getppid() != worker:
        raise OSError("its worker is gone")
    for kind, limit in (
        (resource.RLIMIT_AS, _mapped_bytes() + memory_bytes + _IMPORTS_BYTES),
        (resource.RLIMIT_CPU, _MOST_CPU_S),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _limit(kind, limit)
    filter_calls()


def close_files(memory_bytes: int) -> None:
    """Give up opening files, and memory beyond what is mapped plus `memory_bytes`.

    Open files stay open: the channel, the trace, and /dev/null.
    """
    # No module can be read afterwards: a missing one then counts as missing, not as unreadable.
    sys.meta_path[:] = [BuiltinImporter]
    _keep_capabilities(0)
    _limit(resource.RLIMIT_AS, _mapped_bytes() + memory_bytes)
    _limit(resource.RLIMIT_NOFILE, 0)
    filter_paths()


def _keep_capabilities(mask: int) -> None:
    """Give up all capabilities except those of a mask. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_CAPABILITIES.size)
    if libc.capget(_CAPABILITIES_HEADER, buffer):
        raise OSError(ctypes.get_errno(), "can't read its capabilities")
    _, permitted, *_ = _CAPABILITIES.unpack(buffer)
    masked = permitted & mask
    if libc.capset(_CAPABILITIES_HEADER, _CAPABILITIES.pack(masked, masked, 0, 0, 0, 0)):
        raise OSError(ctypes.get_errno(), "can't give up capabilities")


def _limit(kind: int, limit: int) -> None:
    hard = resource.getrlimit(kind)[1]
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(kind, (limit, limit))


def _become_user(uid: int) -> None:
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _mapped_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()


def allow_cpu(seconds: int) -> None:
    """Allow the next call that many seconds of processor time; then SIGXCPU ends it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit_s = int(usage.ru_utime + usage.ru_stime) + 1 + seconds
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (min(limit_s, hard), hard))


def work(channel: socket.socket) -> None:
    """Receive the order, then answer call after call, until the worker is gone."""
    order = receive(channel, _MOST_ORDER_BYTES)
    limits, codes = order["limits"], InlineFunctions(order["codes"], order["env"])
    try:
        names = tuple(imports_in(order["codes"]))
        imports_nvtx = any(name.split(".")[0] == "nvtx" for name in names)
        # Imported only for code that uses NVTX, as it needs more modules.
        ranges_module: Any = None
        if imports_nvtx:
            ranges_module = importlib.import_module("services.agent.worker.inline.ranges")
        restrict(limits["memory_bytes"])
        import_modules(names)
        ranges = ranges_module.NvtxRanges() if ranges_module else None
        close_files(limits["memory_bytes"])
        allow_cpu(limits["cpu_s"])
        codes.define()
    except BaseException as error:  # noqa: BLE001  # sent to the worker, whatever it is
        send(channel, packed([FATAL, *codes.line_and_reason(error)], _MOST_ORDER_BYTES))
        return
    send(channel, packed([OK, None], _MOST_ORDER_BYTES))
    while True:
        name, flags, *arguments = receive(channel, _MOST_ORDER_BYTES)
        allow_cpu(limits["cpu_s"])
        recording = ranges.recording() if ranges and flags & WANTS_RANGES else nullcontext([])
        limit_bytes = limits["output_bytes"]
        send(channel, codes.answer(name, arguments, limit_bytes, flags, recording))


def _switch_spans(*, is_open: bool) -> list[list[Any]]:
    """Begin or end to record the code's own spans; return those recorded so far."""
    USER_SPANS.is_open = is_open
    spans, _ = USER_SPANS.take()
    return [
        [span.name, span.start_ns, span.duration_ns, span.attributes]
        for span in spans[:_MOST_SPANS]
    ]


def main(arguments: list[str]) -> None:
    """Work with the descriptors given on the command line."""
    channel_fd, trace_fd = map(int, arguments)
    sys.argv[:] = ["inline"]
    faulthandler.enable(trace_fd, all_threads=False)
    faulthandler.register(signal.SIGUSR1, trace_fd, all_threads=False)
    faulthandler.register(signal.SIGXCPU, trace_fd, all_threads=False, chain=True)
    channel = socket.socket(fileno=channel_fd)
    with contextlib.suppress(WireBroken):
        work(channel)
