"""I/O: one blocking connection to the first of several NATS servers that takes it, with TLS too."""

import json
import socket
import ssl
from urllib.parse import SplitResult, urlsplit

from services.scheduler.wire import PING, Parser, connect_line

CHUNK_BYTES = 1 << 16
"""How much is read at a time: more than a TLS record, so that none is left unseen in a buffer."""

_WITHIN_S = 5.0
_PORT = 4222


def dial(urls: str, seed: str | None, name: str) -> tuple[socket.socket, Parser]:
    """Connect to one of the servers in `urls`, comma separated, tried in order.

    Raises ConnectionRefusedError, which says of each server why it is not used.
    """
    reasons: list[str] = []
    for url in urls.split(","):
        address = urlsplit(url.strip())
        try:
            return _greeted(address, seed, name)
        except OSError as error:
            reasons.append(f"{address.hostname}:{address.port or _PORT}: {error}")
    raise ConnectionRefusedError("; ".join(reasons))


def _greeted(address: SplitResult, seed: str | None, name: str) -> tuple[socket.socket, Parser]:
    place = (address.hostname or "127.0.0.1", address.port or _PORT)
    connection = socket.create_connection(place, timeout=_WITHIN_S)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        parser = Parser()
        greeting = _await(connection, parser, "INFO")
        wants_tls = bool(json.loads(greeting).get("tls_required"))
        if address.scheme == "tls" or wants_tls:
            if not wants_tls:
                raise ConnectionRefusedError("the server speaks no TLS, its URL begins with tls:")
            # Trusts what Python trusts, which SSL_CERT_FILE extends, as nats-py does.
            context = ssl.create_default_context()
            connection = context.wrap_socket(connection, server_hostname=place[0])
        connection.sendall(connect_line(greeting, seed, name) + PING)
        _await(connection, parser, "PONG")
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection, parser


def _await(connection: socket.socket, parser: Parser, kind: str) -> bytes:
    """Read until a frame of `kind` and return its body."""
    while received := connection.recv(CHUNK_BYTES):
        for frame in parser.feed(received):
            if frame.kind == kind:
                return frame.body
            if frame.kind == "ERR":
                raise ConnectionRefusedError(frame.body.decode(errors="replace"))
    raise ConnectionRefusedError("the server closed the connection")
