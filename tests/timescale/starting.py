"""Starting a server for tests that may die at its start: seen, tried again, never left behind."""

import json
import selectors
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

TRIES = 3
_START_S = 120.0
_END_S = 10.0
_TAIL = 4000


class DidNotStart(Exception):
    """The server did not come up."""


@contextmanager
def started(
    command: Sequence[str], folder: Path, log: Path, ready: Callable[[int], None]
) -> Iterator[int]:
    """Run a server that prints its port as JSON; `ready` gets the port before anybody else.

    Tried `TRIES` times, whatever goes wrong until then; what it wrote to stderr is in `log`. Its
    stdin is open for as long as this process lives.
    Raises DidNotStart with the end of that.
    """
    log.unlink(missing_ok=True)
    for attempt in range(1, TRIES + 1):
        with log.open("ab") as stderr:
            server = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
            )
        try:
            try:
                port = _port_of(server)
                ready(port)
            except Exception as error:
                _end(server)
                if attempt == TRIES:
                    raise DidNotStart(_told(server, log)) from error
                continue
            yield port
            return
        finally:
            _end(server)


def _port_of(server: "subprocess.Popen[bytes]") -> int:
    """Return the port in the first line. Raises ValueError without one."""
    assert server.stdout is not None
    _await_output(server.stdout)
    return int(json.loads(server.stdout.readline())["port"])


def _await_output(stdout: IO[bytes]) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        if not selector.select(_START_S):
            raise TimeoutError(f"nothing on stdout in {_START_S:.0f} s")


def _end(server: "subprocess.Popen[bytes]") -> None:
    server.terminate()
    try:
        server.communicate(timeout=_END_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.communicate()


def _told(server: "subprocess.Popen[bytes]", log: Path) -> str:
    tail = log.read_bytes()[-_TAIL:].decode(errors="replace").strip()
    said = tail or "nothing on stderr"
    return f"no server after {TRIES} tries, the last ended with {server.returncode}:\n{said}"
