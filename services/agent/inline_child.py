"""The process of inline Python: it reads code, gives up its rights, and then only computes.

    python -I -c BOOT ROOT CHANNEL_FD TRACE_FD

The first frame it hears is the order: codes by name, `env`, and limits. Modules that the code
imports are imported behind a filter of system calls (`inline_filter`; none, no inline Python), with
a bound on memory: only files may be opened, to be read. Started by root it is a user that nobody
else is, with no capability but to read modules wherever they lie. Before code runs that ends, and
opening files with it. It can then open, start and change nothing outside it, signal nobody but
itself, and write to the channel, the trace and /dev/null only. Each call has a bound on processor
time, which code can raise up to the process's own; it ends with its worker, whatever it does.
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
from typing import Any

from mlscope.tracing.application import NOTEBOOK
from services.agent.inline_filter import filter_calls
from services.agent.inline_wire import (
    SAMPLES,
    Buffer,
    FrameTooLarge,
    WireBroken,
    packed,
    receive,
    send,
)

OK, KEPT, RAISED, FATAL = "ok", "kept", "raised", "fatal"
"""How an answer begins; `raised` and `fatal` are followed by a line (0: none) and a reason."""

WANTS_ANSWER, WANTS_NOTES, WANTS_RANGES = 1, 2, 4
"""What a call wishes for, added: the data, and what the code says by mlscope.tracing, by NVTX."""

_MOST_ORDER_BYTES = 1 << 40
_MOST_NOTES = 1000
_MOST_REASON = 500
_MOST_LINE = 80
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
    errno.EPERM: "inline code may only compute, it has no file, no connection, no other process",
    errno.EAGAIN: "inline code may start no process and no thread",
    errno.EMFILE: "inline code may open no file and no connection",
    errno.EFBIG: "inline code may write no file",
}

Function = Callable[[Any, Any], Any]


class Codes:
    """The functions of an order's codes, which share their names and `env`."""

    def __init__(self, codes: Mapping[str, str], env: dict[str, Any]) -> None:
        self._lines = {name: text.splitlines() for name, text in codes.items()}
        self._codes, self._env = codes, env
        self._names: dict[str, Any] = {"__name__": "inline"}
        self._functions: dict[str, Function] = {}
        self._kept: Any = None

    def define(self) -> None:
        """Run each code, in order, and find its function. Raises whatever the code does."""
        for name, text in self._codes.items():
            self._names.pop("fun", None)
            exec(compile(text, f"<{name}>", "exec"), self._names)  # noqa: S102  # what it is for
            found = self._names.get("fun") or self._names.get(name)
            if not callable(found):
                raise NameError("there is no function: write def fun(env, data)")
            self._functions[name] = found

    def call(self, name: str, given: tuple[Any, ...]) -> Any:
        """Return what a function makes of the data, or of what the one before it gave.

        The functions around the middle one may give nothing: the data go on as they are.
        """
        data = given[0] if given else self._kept
        if len(given) > 1:
            self._env[SAMPLES] = given[1]
        made = self._functions[name](self._env, data)
        is_around = name.startswith(("before_", "after_"))
        self._kept = data if made is None and is_around else made
        if self._kept is None:
            raise TypeError("gave None: its function returns the data")
        return self._kept

    def place_of(self, error: BaseException) -> tuple[int, str]:
        """Return the line of the code that an error comes from (0: none), and what happened."""
        file, line = "", 0
        if isinstance(error, SyntaxError):
            file, line = str(error.filename), error.lineno or 0
        trace = error.__traceback__
        while trace is not None:
            name = trace.tb_frame.f_code.co_filename
            if name[1:-1] in self._lines:
                file, line = name, trace.tb_lineno
            trace = trace.tb_next
        said = error.msg if isinstance(error, SyntaxError) else _said(error)
        lines = self._lines.get(file[1:-1], [])
        shown = lines[line - 1].strip()[:_MOST_LINE] if 0 < line <= len(lines) else ""
        reason = f"{type(error).__name__}{said and ': '}{said}"[:_MOST_REASON]
        return line, f"{reason} in `{shown}`" if shown else reason


def _said(error: BaseException) -> str:
    """Return an error's own words, and what they come from here."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001  # the code's own class may do anything
        said = ""
    hint = _HINTS.get(error.errno or 0, "") if isinstance(error, OSError) else ""
    if isinstance(error, MemoryError):
        hint = "inline code has used up its memory"
    return f"{said} ({hint})" if said and hint else said or hint


def imports_in(codes: Mapping[str, str]) -> Iterator[str]:
    """Yield the modules that codes import by name. Raises SyntaxError."""
    for name, text in codes.items():
        for node in ast.walk(ast.parse(text, f"<{name}>")):
            if isinstance(node, ast.Import):
                yield from (each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module
                yield from (f"{node.module}.{each.name}" for each in node.names)


def bring_modules(names: Sequence[str]) -> None:
    """Import what can be; the code's own statement says what cannot. Programs are no modules."""
    for name in names:
        if "__main__" not in name.split("."):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    picture = sys.modules.get("PIL.Image")
    if picture is not None:
        picture.init()  # formats are imported when the first picture is opened, else


def restrict(memory_bytes: int) -> None:
    """Give up every right but to compute, and to read files for imports.

    Raises OSError when root's can't be given up, FilterMissing (one) where nothing would hold it.
    """
    worker = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
        _become_nobody()
        libc.prctl(_PR_SET_KEEPCAPS, 0, 0, 0, 0)
    _keep_capabilities(_CAP_READ)
    # Behind the change of user, which takes it back.
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError("can't be ended with its worker")
    if os.getppid() != worker:
        raise OSError("its worker is gone")
    for kind, most in (
        (resource.RLIMIT_AS, _mapped_bytes() + memory_bytes + _IMPORTS_BYTES),
        (resource.RLIMIT_CPU, _MOST_CPU_S),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _limit(kind, most)
    filter_calls()


def close_files(memory_bytes: int) -> None:
    """Give up opening files, and memory beyond what is mapped and this.

    What is open stays open: the channel, the trace, and /dev/null.
    """
    # Nothing can be read afterwards: what is missing is then missing, and no fault of a file.
    sys.meta_path[:] = [BuiltinImporter]
    _keep_capabilities(0)
    _limit(resource.RLIMIT_AS, _mapped_bytes() + memory_bytes)
    _limit(resource.RLIMIT_NOFILE, 0)


def _keep_capabilities(kept: int) -> None:
    """Give up all capabilities but these; modules may lie where only root reads. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = ctypes.create_string_buffer(_CAPABILITIES.size)
    if libc.capget(_CAPABILITIES_HEADER, found):
        raise OSError(ctypes.get_errno(), "can't tell its capabilities")
    _, permitted, *_ = _CAPABILITIES.unpack(found)
    left = permitted & kept
    if libc.capset(_CAPABILITIES_HEADER, _CAPABILITIES.pack(left, left, 0, 0, 0, 0)):
        raise OSError(ctypes.get_errno(), "can't give up capabilities")


def _limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (bound, bound))


def _become_nobody() -> None:
    own = _FIRST_UID + os.getpid()
    os.setgroups([])
    for uid in (own, _NOBODY):
        try:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        except OSError:
            if uid == _NOBODY:
                raise
        else:
            return


def _mapped_bytes() -> int:
    with open("/proc/self/statm", "rb") as told:  # noqa: PTH123
        return int(told.read().split()[0]) * resource.getpagesize()


def allow_cpu(seconds: int) -> None:
    """Let the next call use so many seconds of processor time; SIGXCPU ends it then."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + 1 + seconds
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (min(most, hard), hard))


def work(channel: socket.socket) -> None:
    """Take the order, then call after call, until the worker is gone."""
    order = receive(channel, _MOST_ORDER_BYTES)
    limits, codes = order["limits"], Codes(order["codes"], order["env"])
    try:
        names = tuple(imports_in(order["codes"]))
        ears = _ears_module(names)
        restrict(limits["memory_bytes"])
        bring_modules(names)
        ranges = ears.Ranges() if ears else None
        close_files(limits["memory_bytes"])
        allow_cpu(limits["cpu_s"])
        codes.define()
    except BaseException as error:  # noqa: BLE001  # told to the worker, whatever it is
        send(channel, packed([FATAL, *codes.place_of(error)], _MOST_ORDER_BYTES))
        return
    send(channel, packed([OK, None], _MOST_ORDER_BYTES))
    while True:
        name, wishes, *given = receive(channel, _MOST_ORDER_BYTES)
        allow_cpu(limits["cpu_s"])
        hearing = ranges.heard() if ranges and wishes & WANTS_RANGES else nullcontext([])
        send(channel, _answer(codes, name, given, limits["output_bytes"], wishes, hearing))


def _ears_module(names: Sequence[str]) -> Any:
    """Return what hears NVTX, where the code imports it: more modules than others need."""
    if not any(name.split(".")[0] == "nvtx" for name in names):
        return None
    return importlib.import_module("services.agent.inline_ranges")


def _answer(
    codes: Codes,
    name: str,
    given: list[Any],
    most_bytes: int,
    wishes: int,
    hearing: AbstractContextManager[list[Any]],
) -> list[Buffer]:
    try:
        _notebook(is_open=bool(wishes & WANTS_NOTES))
        with hearing as heard:
            made = codes.call(name, tuple(given))
        notes = [_notebook(is_open=False), *heard]
        return packed(
            [OK, made, *notes] if wishes & WANTS_ANSWER else [KEPT, None, *notes], most_bytes
        )
    except FrameTooLarge as error:
        told: tuple[int, str] = (0, f"its answer has {error}")
    except BaseException as error:  # noqa: BLE001  # told to the worker, whatever it is
        told = codes.place_of(error)
    return packed([RAISED, *told], _MOST_ORDER_BYTES)


def _notebook(*, is_open: bool) -> list[list[Any]]:
    """Open or close what the code's own spans are noted in; return what was there."""
    NOTEBOOK.is_open = is_open
    taken, _ = NOTEBOOK.take()
    return [
        [each.name, each.start_ns, each.duration_ns, each.attributes]
        for each in taken[:_MOST_NOTES]
    ]


def main(arguments: list[str]) -> None:
    """Work with the descriptors given on the command line."""
    channel_fd, trace_fd = (int(each) for each in arguments)
    sys.argv[:] = ["inline"]
    faulthandler.enable(trace_fd, all_threads=False)
    faulthandler.register(signal.SIGUSR1, trace_fd, all_threads=False)
    faulthandler.register(signal.SIGXCPU, trace_fd, all_threads=False, chain=True)
    channel = socket.socket(fileno=channel_fd)
    with contextlib.suppress(WireBroken):
        work(channel)
