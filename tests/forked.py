"""`mlscope …` in processes forked from one that has imported what most commands import.

A command in an interpreter of its own spends half a second of processor time on imports, and tests
run hundreds. A fork differs in nothing else: it has the environment, folder and streams that it is
given, and ends as an interpreter ends.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
IMPORTED = (
    *(f"cli.commands.{name}" for name in ("ls", "manifest", "predict", "run", "show", "tables")),
    "cli.failures",
    "cli.main",
    "mlscope.bus.nats.bus",
    "mlscope.bus.nats.connection",
    "nacl.signing",
    "nkeys",
)
"""None of these starts a thread, which a fork would lack."""
STARTERS = frozenset(("agent", "demo", "doctor", "down", "serve", "up", "upgrade"))
"""Commands that start or watch processes: they run in interpreters of their own."""
AT_START = ("PYTHON", "LANG", "LC_", "LD_", "COVERAGE")
"""Variables that an interpreter reads as it starts begin with these; a fork takes PYTHONPATH on."""
MAX_REQUEST_BYTES = 100_000


class Forked:
    """A command that was forked; it is looked after like a `subprocess.Popen`."""

    def __init__(self, state: IO[str]) -> None:
        """Take the pipe that says its process id, then its exit code."""
        self._state = state
        self.pid = int(state.readline())

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout_s: float) -> int:
        """Return its exit code, negative for the signal that ended it; once only.

        Raises `TimeoutExpired`.
        """
        if not select.select([self._state], [], [], timeout_s)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout_s)
        with self._state:
            return int(self._state.readline())


Service = Forked | subprocess.Popen[bytes]


class Forks:
    """The process that forks, as whoever runs commands sees it."""

    def __init__(self, *, clusters: bool = False) -> None:
        """Start it; it ends with this process. `clusters`: it forks the processes of those."""
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(number), "clusters" * clusters],
                cwd=ROOT,
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def start(self, request: bytes, out: IO[bytes], err: IO[bytes]) -> Forked:
        """Start the command of a request, which writes into these files."""
        reading, writing = os.pipe()
        try:
            files = [out.fileno(), err.fileno(), writing]
            socket.send_fds(self._requests, [request], files)
        finally:
            os.close(writing)
        return Forked(os.fdopen(reading))

    def run(self, request: bytes, timeout_s: float) -> subprocess.CompletedProcess[bytes]:
        """Run the command of a request to its end; `TimeoutExpired` when it takes too long."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            command = self.start(request, out, err)
            try:
                code = command.wait(timeout_s)
            except subprocess.TimeoutExpired:
                command.kill()
                command.wait(60.0)
                raise
            return subprocess.CompletedProcess([], code, _content(out), _content(err))


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@cache
def forks(*, clusters: bool = False) -> Forks:
    """Start the process that forks, once for all tests of this process."""
    return Forks(clusters=clusters)


def _request(
    arguments: Sequence[str], environ: Mapping[str, str], folder: Path | None = None
) -> bytes:
    """Return the request for a command; empty where it needs an interpreter of its own."""
    at_start = {name for name in (*os.environ, *environ) if name.startswith(AT_START)}
    at_start.discard("PYTHONPATH")
    if any(environ.get(name, "") != os.environ.get(name, "") for name in at_start):
        return b""
    told = {"arguments": arguments, "environ": dict(environ), "cwd": str(folder or Path.cwd())}
    request = json.dumps(told).encode()
    return request if len(request) < MAX_REQUEST_BYTES else b""


def run_mlscope(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    cwd: Path | None = None,
    timeout: float = 60.0,
) -> subprocess.CompletedProcess[bytes]:
    """Run `mlscope` with these `arguments` and this environment; return how it ended.

    `cwd`: its folder, the current one by default. `timeout`: in seconds; `TimeoutExpired` then.
    """
    if request := _request(arguments, environ, cwd):
        if tuple(arguments[:2]) == ("up", "--detach") and not is_measured(environ):
            return forks(clusters=True).run(request, timeout)
        if not STARTERS & set(arguments[:1]):
            return forks().run(request, timeout)
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        env=dict(environ),
        cwd=cwd,
        capture_output=True,
        check=False,
        timeout=timeout,
    )


def start_service(name: str, environ: Mapping[str, str], log: IO[bytes]) -> Service:
    """Start `mlscope serve` with this environment; it writes into a log."""
    arguments = ["serve", name]
    request = _request(arguments, environ)
    if request and not is_measured(environ):
        return forks(clusters=True).start(request, log, log)
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", *arguments],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )


def is_measured(environ: Mapping[str, str]) -> bool:
    """Say whether coverage is measured: as an interpreter ends, which a forked service does not."""
    return "COVERAGE_PROCESS_CONFIG" in environ


def next_command(requests: socket.socket) -> list[str]:
    """Fork for each request; return, in the process that is to run the command, its arguments."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, files, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 3)
        if not request:
            sys.exit()
        if not os.fork():
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _report_the_end(*files)
            told = json.loads(request)
            os.environ.clear()
            os.environ.update(told["environ"])
            sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
            os.chdir(told["cwd"])
            return list(told["arguments"])
        for file in files:
            os.close(file)


def _report_the_end(out: int, err: int, state: int) -> None:
    """Return in a child, with its own streams; tell its id and its exit code meanwhile."""
    if child := os.fork():
        os.close(out)
        os.close(err)
        os.write(state, f"{child}\n".encode())
        _, ended = os.waitpid(child, 0)
        with suppress(BrokenPipeError):  # Whoever ran it waits no longer.
            os.write(state, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
        os._exit(0)
    os.close(state)
    for number, file in enumerate((out, err), start=1):
        os.dup2(file, number)
        os.close(file)


if __name__ == "__main__":
    from tests import forked_cluster

    has_clusters = bool(sys.argv[2])
    for name in (*IMPORTED, *(forked_cluster.IMPORTED if has_clusters else ())):
        importlib.import_module(name)
    gc.freeze()
    arguments = next_command(socket.socket(fileno=int(sys.argv[1])))
    if has_clusters:
        forked_cluster.fork_in_place()
    sys.argv = ["mlscope", *arguments]
    sys.exit(importlib.import_module("cli.main").main())
