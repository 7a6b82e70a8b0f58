"""A process that imports what others need, and forks one at each request of tests.

An interpreter of one's own spends half a second of processor time on imports, and tests start
hundreds. `commands` has two such servers: for `mlscope …`, and for clusters, whose processes are
forked once more by whoever starts them; `workers` has one for an agent's workers. `children` is
what a forked process does first and last, and how its parent waits for it.
"""

import atexit
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
AT_START = ("COVERAGE", "LANG", "LC_", "LD_", "OMP_", "OPENBLAS_", "PYTHON")
"""Variables that an interpreter or its libraries read as they start begin with these; PYTHONPATH
alone a fork takes on."""
MAX_REQUEST_BYTES = 100_000


class ForkServer:
    """The process that forks, as whoever asks it sees it."""

    def __init__(self, module: str, *arguments: str) -> None:
        """Start a `module` with its socket's number and these `arguments`.

        It ends with this process.
        """
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._environ = dict(os.environ)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(number), *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def request(
        self, arguments: Sequence[str], environ: Mapping[str, str], folder: Path | None = None
    ) -> bytes:
        """Return the request for a fork with these `arguments` and variables, in a `folder`.

        It is empty where only an interpreter of its own would be as its variables say.
        """
        at_start = {name for name in (*self._environ, *environ) if name.startswith(AT_START)}
        at_start.discard("PYTHONPATH")
        if any(environ.get(name, "") != self._environ.get(name, "") for name in at_start):
            return b""
        fields = {"environ": dict(environ), "cwd": str(folder or Path.cwd())}
        request = json.dumps({"arguments": arguments, **fields}).encode()
        return request if len(request) < MAX_REQUEST_BYTES else b""

    def send(self, request: bytes, descriptors: Sequence[int]) -> None:
        """Ask for a fork, which gets copies of these `descriptors`."""
        socket.send_fds(self._requests, [request], descriptors)

    def receive(self) -> bytes:
        """Return what the server answers."""
        return self._requests.recv(16)

    def close(self) -> None:
        """End it: nobody asks any more, also no process that has this one's files."""
        self._requests.shutdown(socket.SHUT_RDWR)
        self._requests.close()
        self._process.wait()


def next_request(requests: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return what to run, and the descriptors for it; ends this process once nobody asks."""
    request, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 4)
    if not request:
        sys.exit()
    return json.loads(request), descriptors


def is_measured(environ: Mapping[str, str]) -> bool:
    """Say whether coverage is measured: as an interpreter ends, which a forked service does not."""
    return "COVERAGE_PROCESS_CONFIG" in environ
