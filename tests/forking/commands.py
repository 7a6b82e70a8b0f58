"""`mlscope …` in processes forked from one that has imported what most commands import.

A fork differs from an interpreter of its own in nothing else: it has the environment, folder and
streams that it is given, and ends as an interpreter ends.
"""

import gc
import importlib
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

from tests.forking.children import take_on
from tests.forking.server import ForkServer, is_measured, next_request

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


class ForkedCommand:
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


Service = ForkedCommand | subprocess.Popen[bytes]


class CommandForks(ForkServer):
    """The process that forks commands, as whoever runs them sees it."""

    def __init__(self, *, clusters: bool = False) -> None:
        """Start it. `clusters`: what it forks forks the processes of a cluster in its turn."""
        super().__init__("tests.forking.commands", "clusters" * clusters)

    def start(self, request: bytes, out: IO[bytes], err: IO[bytes]) -> ForkedCommand:
        """Start the command of a request, which writes into these files."""
        reading, writing = os.pipe()
        try:
            self.send(request, [out.fileno(), err.fileno(), writing])
        finally:
            os.close(writing)
        return ForkedCommand(os.fdopen(reading))

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
def forks(*, clusters: bool = False) -> CommandForks:
    """Start the process that forks, once for all tests of this process."""
    return CommandForks(clusters=clusters)


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
    starts_cluster = tuple(arguments[:2]) == ("up", "--detach") and not is_measured(environ)
    if starts_cluster or not STARTERS & set(arguments[:1]):
        server = forks(clusters=starts_cluster)
        if request := server.request(arguments, environ, cwd):
            return server.run(request, timeout)
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
    if not is_measured(environ):
        server = forks(clusters=True)
        if request := server.request(arguments, environ):
            return server.start(request, log, log)
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", *arguments],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )


def next_command(requests: socket.socket) -> list[str]:
    """Fork for each request; return, in the process that is to run the command, its arguments."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, descriptors = next_request(requests)
        if not os.fork():
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            out, err, state = descriptors
            _report_the_end(out, err, state)
            take_on(stdout=out, stderr=err, env=request["environ"], cwd=request["cwd"])
            sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
            return list(request["arguments"])
        for descriptor in descriptors:
            os.close(descriptor)


def _report_the_end(out: int, err: int, state: int) -> None:
    """Return in a child; write its id and its exit code to `state` meanwhile."""
    if child := os.fork():
        os.close(out)
        os.close(err)
        os.write(state, f"{child}\n".encode())
        _, ended = os.waitpid(child, 0)
        with suppress(BrokenPipeError):  # Whoever ran it waits no longer.
            os.write(state, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
        os._exit(0)


if __name__ == "__main__":
    from tests.forking import in_place

    has_clusters = bool(sys.argv[2])
    for name in (*IMPORTED, *(in_place.IMPORTED if has_clusters else ())):
        importlib.import_module(name)
    gc.freeze()
    arguments = next_command(socket.socket(fileno=int(sys.argv[1])))
    if has_clusters:
        in_place.fork_in_place()
    sys.argv = ["mlscope", *arguments]
    sys.exit(importlib.import_module("cli.main").main())
