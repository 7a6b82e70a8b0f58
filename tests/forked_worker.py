"""An agent's workers in tests, forked from a process that has imported what a worker imports.

A worker in an interpreter of its own spends half a second of processor time on imports, and tests
start hundreds. A fork has the arguments, environment, descriptors and session that it would have,
and its parent is the process that asked for it.
"""

import ctypes
import fcntl
import gc
import importlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

from tests.forked import is_measured
from tests.forked_cluster import ForkedChild

ROOT = Path(__file__).resolve().parents[1]
WORKER = "services.agent.worker.worker"
COMMAND = [sys.executable, "-P", "-m", WORKER]
AT_START = ("LANG", "LC_", "LD_", "OMP_", "OPENBLAS_", "PYTHON")
"""Variables that an interpreter or its libraries read as they start begin with these."""
MAX_REQUEST_BYTES = 100_000
ABOVE_ALL = 4096
"""No descriptor of a test has such a number."""
PR_SET_CHILD_SUBREAPER = 36


class ForkedWorker(ForkedChild):
    """A worker as `subprocess.Popen` has it, as far as asyncio asks."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        """Take the id of a child of this process."""
        self.args, self.returncode, self.pid = COMMAND, None, pid

    def poll(self) -> int | None:
        """Return the exit code; None while it runs, or once asyncio has waited for its end."""
        try:
            return super().poll()
        except ChildProcessError:
            return self.returncode

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


class WorkerForks:
    """The process that forks workers, as whoever starts them sees it."""

    def __init__(self) -> None:
        """Start it; it ends with this process."""
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._environ = dict(os.environ)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.forked_worker", str(number)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def can_start(self, environ: Mapping[str, str]) -> bool:
        """Return whether a fork with these variables is as an interpreter would be."""
        if is_measured(environ):
            return False
        at_start = {name for name in (*self._environ, *environ) if name.startswith(AT_START)}
        return all(
            environ.get(name, "") == self._environ.get(name, "")
            for name in at_start - {"PYTHONPATH"}
        )

    def start(
        self, arguments: Sequence[str], environ: Mapping[str, str], stderr: IO[bytes]
    ) -> ForkedWorker:
        """Start a worker with the descriptors that its first three `arguments` name."""
        request = {"arguments": arguments, "environ": dict(environ), "cwd": str(Path.cwd())}
        descriptors = [stderr.fileno(), *map(int, arguments[:3])]
        # Whoever's parent has ended gets its nearest ancestor that asks for such children.
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            socket.send_fds(self._requests, [json.dumps(request).encode()], descriptors)
            return ForkedWorker(int(self._requests.recv(16)))
        finally:
            prctl(PR_SET_CHILD_SUBREAPER, 0)


@cache
def worker_forks() -> WorkerForks:
    """Start the process that forks workers, once for all tests of this process."""
    return WorkerForks()


def popen_of_workers() -> Any:
    """Return what stands in for `subprocess.Popen`: it forks workers, and starts all else."""
    start_interpreter, forks = subprocess.Popen, worker_forks()

    def popen(argv: Sequence[str], **options: Any) -> Any:
        if list(argv[: len(COMMAND)]) != COMMAND or not forks.can_start(options["env"]):
            return start_interpreter(argv, **options)
        return forks.start(argv[len(COMMAND) :], options["env"], options["stderr"])

    return popen


def serve(requests: socket.socket) -> None:
    """Fork a worker for each request; tell its id once it is a child of whoever asks."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 4)
        if not request:
            return
        reading, writing = os.pipe()
        if not (parent := os.fork()):
            if os.fork():
                os._exit(0)
            told = json.loads(request)
            os.setsid()
            os.chdir(told["cwd"])
            os.write(writing, str(os.getpid()).encode())
            work(told, descriptors)
        os.waitpid(parent, 0)
        requests.send(os.read(reading, 16))
        for descriptor in (reading, writing, *descriptors):
            os.close(descriptor)


def work(request: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """Become the worker of a request. Its parent's calls never return here."""
    try:
        numbers = (2, *map(int, request["arguments"][:3]))
        copies = [fcntl.fcntl(file, fcntl.F_DUPFD, ABOVE_ALL) for file in descriptors]
        os.closerange(3, ABOVE_ALL)
        for number, copy in zip(numbers, copies, strict=True):
            os.dup2(copy, number)
        os.closerange(ABOVE_ALL, max(copies) + 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        paths = [path for path in sys.path if path != str(ROOT)]
        sys.path[:] = [*request["environ"]["PYTHONPATH"].split(os.pathsep), *paths]
        os.environ.clear()
        os.environ.update(request["environ"])
        sys.argv = [WORKER, *request["arguments"]]
        importlib.import_module(WORKER).main(sys.argv[1:])
    except Exception:
        logging.exception("forked")
    finally:
        os._exit(1)


if __name__ == "__main__":
    importlib.import_module(WORKER)
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
