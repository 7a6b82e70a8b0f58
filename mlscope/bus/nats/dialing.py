"""I/O: one blocking connection to the first NATS server of a list that accepts it, also by TLS."""

import json
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from mlscope.bus.nats.broker_socket import BrokerSocket
from mlscope.bus.nats.wire import PING, Parser, connect_line
from mlscope.peers import expect_user

_TIMEOUT_S = 5.0
_PORT = 4222


class ClientRefused(ConnectionRefusedError):
    """A server answered and did not accept the client's key.

    A server that is reading who its users are may close a new connection without a word.
    """


def trust(authority_file: Path | None) -> ssl.SSLContext:
    """Return what a client trusts: that authority alone, or what Python trusts without one.

    SSL_CERT_FILE extends what Python trusts.
    """
    context = ssl.create_default_context(cafile=authority_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def dial(
    urls: str,
    seed: str | None,
    name: str,
    authority_file: Path | None = None,
    *,
    timeout_s: float = _TIMEOUT_S,
    broker_uid: int | None = None,
) -> tuple[BrokerSocket, Parser]:
    """Connect to one of the servers in `urls` (separated by commas), tried in order.

    `seed` is the nkey seed, None where users have no keys; `name` is the connection's name;
    `authority_file` is as in `trust`; `timeout_s` bounds each wait for a server; `broker_uid` is
    the user as whom one on loopback runs, None for anybody.
    Returns the blocking socket and the parser of what is received on it. Raises
    ConnectionRefusedError with the reason for each server, a ClientRefused where one answered.
    """
    reasons: list[str] = []
    failure = ConnectionRefusedError
    for url in urls.split(","):
        address = urlsplit(url.strip())
        try:
            return _dial_one(address, seed, name, authority_file, timeout_s, broker_uid)
        except OSError as error:
            reasons.append(f"{address.hostname}:{address.port or _PORT}: {error}")
            failure = ClientRefused if isinstance(error, ClientRefused) else failure
    raise failure("; ".join(reasons))


def _dial_one(
    address: SplitResult,
    seed: str | None,
    name: str,
    authority_file: Path | None,
    timeout_s: float,
    broker_uid: int | None,
) -> tuple[BrokerSocket, Parser]:
    endpoint = (address.hostname or "127.0.0.1", address.port or _PORT)
    raw = socket.create_connection(endpoint, timeout=timeout_s)
    with ExitStack() as undo:
        undo.callback(raw.close)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = BrokerSocket(raw)
        parser = Parser()
        greeting = _await(connection, parser, "INFO")
        expect_user(raw, broker_uid)
        wants_tls = bool(json.loads(greeting).get("tls_required"))
        if address.scheme == "tls" and not wants_tls:
            raise ConnectionRefusedError(
                "the server does not use TLS, but its URL begins with tls:"
            )
        if wants_tls:
            connection.start_tls(trust(authority_file), endpoint[0])
            # What came in plain text after the greeting may be anybody's.
            parser = Parser()
        connection.sendall(connect_line(greeting, seed, name) + PING)
        _await(connection, parser, "PONG")
        connection.settimeout(None)
        undo.pop_all()
    return connection, parser


def _await(connection: BrokerSocket, parser: Parser, kind: str) -> bytes:
    """Read until a frame of `kind` arrives and return its body."""
    while received := connection.recv():
        for frame in parser.feed(received):
            if frame.kind == kind:
                return frame.body
            if frame.kind == "ERR":
                # The protocol has no code of an error but its text.
                is_of_key = b"authorization violation" in frame.body.lower()
                refusal = ClientRefused if is_of_key else ConnectionRefusedError
                raise refusal(frame.body.decode(errors="replace"))
    raise ClientRefused("the server closed the connection")
