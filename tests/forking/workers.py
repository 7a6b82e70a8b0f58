"""The workers of an agent that runs in the process of its test.

They are forked by a server that has imported what a worker imports; the parent of each is the
process that asked for it.
"""

import asyncio
import ctypes
import gc
import importlib
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any

from tests.forking.children import ForkedWorker, fork, take_on
from tests.forking.in_place import WORKER, run_worker
from tests.forking.server import ForkServer, is_measured, next_request

PR_SET_CHILD_SUBREAPER = 36


@cache
def worker_forks() -> ForkServer:
    """Start the process that forks workers, once for all tests of this process."""
    return ForkServer("tests.forking.workers")


def forking_workers() -> Callable[..., Awaitable[Any]]:
    """Return a stand-in for `asyncio.create_subprocess_exec` that forks workers."""
    start_program, server = asyncio.create_subprocess_exec, worker_forks()

    async def create(*argv: str, **options: Any) -> "ForkedWorker | asyncio.subprocess.Process":
        if argv[: len(WORKER)] != WORKER or is_measured(options["env"]):
            return await start_program(*argv, **options)
        if not (request := server.request(argv[len(WORKER) :], options["env"])):
            return await start_program(*argv, **options)
        descriptors = [options["stderr"].fileno(), *options["pass_fds"]]
        return ForkedWorker(_start(server, request, descriptors))

    return create


def _start(server: ForkServer, request: bytes, descriptors: Sequence[int]) -> int:
    """Return the id of a worker, a child of this process that writes errors to the first one."""
    # Whoever's parent has ended gets its nearest ancestor that asks for such children.
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        server.send(request, descriptors)
        return int(server.receive())
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0)


def serve(requests: socket.socket) -> None:
    """Fork a worker for each request; answer with its id once it is a child of whoever asks."""
    while True:
        request, descriptors = next_request(requests)
        reading, writing = os.pipe()
        if not (middle := os.fork()):
            os.write(writing, str(_fork_worker(request, *descriptors)).encode())
            os._exit(0)
        for descriptor in (writing, *descriptors):
            os.close(descriptor)
        os.waitpid(middle, 0)
        with os.fdopen(reading, "rb") as worker_id:
            # To its end: a worker has a copy of `writing` until it has its session and folder.
            requests.send(worker_id.read())


def _fork_worker(request: Mapping[str, Any], stderr: int, *shared: int) -> int:
    environ = request["environ"]

    def start() -> None:
        cwd = request["cwd"]
        take_on(stderr=stderr, env=environ, cwd=cwd, start_new_session=True, pass_fds=shared)
        sys.path[:1] = environ["PYTHONPATH"].split(os.pathsep)

    arguments = [*map(str, shared), *request["arguments"][len(shared) :]]
    return fork(lambda: run_worker(arguments), start)


if __name__ == "__main__":
    importlib.import_module(WORKER[-1])
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
