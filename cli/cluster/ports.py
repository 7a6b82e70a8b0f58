"""Free TCP ports of this machine, and the ports that a cluster listens on."""

import errno
import random
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from cli.cluster.errors import NotUp, PortTaken
from cli.cluster.state import previous_ports, read_state
from mlscope.listening import listen

LOOPBACK = "127.0.0.1"
NAMES = ("nats", "monitor", "postgres", "gateway")
_USUAL_PORTS = {"gateway": 8080, "nats": 4222}
_OWN_PORTS = range(10_000, 32_768)
"""Ports below those that Linux gives to outgoing connections: one of these could take a port that
was free a moment ago."""
_TRIES = 64
_RELEASED_WITHIN_S = 10.0
"""So long may a server of an earlier start take to end."""


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Tell whether a server could listen on `port` of `host` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def is_own_address(host: str) -> bool:
    """Tell whether `host` is an IPv4 address of this machine, or a name of one; no wildcard."""
    try:
        address = socket.gethostbyname(host)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return bool(host) and address != "0.0.0.0"  # noqa: S104 (refused)


def answers(port: int, host: str = LOOPBACK) -> bool:
    """Tell whether a server accepts connections on `port` of `host`."""
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def free_port(host: str = LOOPBACK, *, preferred: int | None = None) -> int:
    """Return `preferred` when it is free, else any free one."""
    if preferred is not None and is_free(preferred, host):
        return preferred
    for port in random.sample(_OWN_PORTS, _TRIES):
        if is_free(port, host):
            return port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def choose(
    names: Iterable[str],
    preferred: Mapping[str, int],
    hosts: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, int]:
    """Choose a free port for every name in `names`; no two are the same.

    `preferred` maps names to the ports to take while they are free, `hosts` those that do not
    listen on loopback to the addresses on which they do.
    """
    chosen: dict[str, int] = {}
    for name in names:
        host = hosts.get(name, LOOPBACK)
        port = free_port(host, preferred=preferred.get(name))
        while port in chosen.values():
            port = free_port(host)
        chosen[name] = port
    return chosen


@contextmanager
def chosen_ports(
    folder: Path, environ: Mapping[str, str], host: str = LOOPBACK
) -> Iterator[Mapping[str, int]]:
    """Choose the ports of the cluster in `folder`: requested, previous, usual, else any free one.

    Clients reach broker and gateway on `host`. `MLSCOPE_GATEWAY_PORT` in `environ` requests the
    gateway's; 0 means that neither broker nor gateway takes its usual one. The usual ports stay
    reserved against clusters that start at the same time. Raises PortTaken where another process
    has a port by which other machines know the cluster.
    """
    requested = environ.get("MLSCOPE_GATEWAY_PORT", "").strip()
    preferred = dict(previous_ports(folder))
    if requested.isdigit() and int(requested):
        preferred["gateway"] = int(requested)
    if host != LOOPBACK:
        _check_known_ports(folder, host, preferred)
    unwanted = {*preferred, *(_USUAL_PORTS if requested == "0" else ())}
    with ExitStack() as reservations:
        usual = {
            name: port
            for name, port in _USUAL_PORTS.items()
            if name not in unwanted and reservations.enter_context(_reserved(port))
        }
        yield choose(NAMES, {**preferred, **usual}, {"nats": host, "gateway": host})


@contextmanager
def held(port: int, host: str = LOOPBACK) -> Iterator[int]:
    """Listen on the pages' `port` of `host`, and lend the descriptor of the socket.

    Each gateway gets it, so that the port is never free while one starts anew. Raises PortTaken
    where another process has it.
    """
    try:
        listener = listen(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise PortTaken("gateway", f"{host}:{port}") from error
    with listener:
        yield listener.fileno()


def _check_known_ports(folder: Path, host: str, preferred: Mapping[str, int]) -> None:
    """Raise PortTaken where a port of the last start on this `host` does not become free."""
    try:
        state = read_state(folder)
    except NotUp:
        return
    if urlsplit(state.nats_url).hostname != host:
        return
    deadline = time.monotonic() + _RELEASED_WITHIN_S
    for name in ("nats", "gateway"):
        port = state.ports.get(name)
        while port and port == preferred.get(name) and not is_free(port, host):
            if time.monotonic() > deadline:
                raise PortTaken(name, f"{host}:{port}")
            time.sleep(0.1)


@contextmanager
def _reserved(port: int) -> Iterator[bool]:
    """Reserve `port` against other clusters of this machine; false when one of them has it.

    Seconds pass between choosing a port and a service listening on it. An abstract unix socket
    is exclusive, leaves no file, and disappears when its process dies.
    """
    if not sys.platform.startswith("linux"):
        yield True
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as reservation:
        try:
            reservation.bind(f"\0mlscope-port-{port}")
        except OSError:
            yield False
            return
        yield True
