"""TCP ports of one machine that nobody listens on."""

import socket
from collections.abc import Iterable, Mapping

LOOPBACK = "127.0.0.1"


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Tell whether a server could listen on `port` of `host` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def answers(port: int, host: str = LOOPBACK) -> bool:
    """Tell whether somebody takes connections on `port` of `host`."""
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def free_port(host: str = LOOPBACK, *, wanted: int | None = None) -> int:
    """Return `wanted` when it is free, else one that the system picks."""
    if wanted is not None and is_free(wanted, host):
        return wanted
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def choose(names: Iterable[str], wanted: Mapping[str, int], host: str = LOOPBACK) -> dict[str, int]:
    """Choose a free port for every name, the wanted one where it still is free; all differ."""
    chosen: dict[str, int] = {}
    for name in names:
        port = free_port(host, wanted=wanted.get(name))
        while port in chosen.values():
            port = free_port(host)
        chosen[name] = port
    return chosen
