"""I/O: one blocking question over a connection of its own, for health checks."""

import secrets
import time

from mlscope.bus.nats.dialing import CHUNK_BYTES, dial
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.nats.wire import PONG, publication, subscription


def is_answered(
    settings: NatsSettings, name: str, subject: str, *, inbox: str, within_s: float
) -> bool:
    """Ask on `subject` and tell whether an answer comes within `within_s` seconds.

    `settings` say where the server is and which key is used; `name` is the connection's name. The
    answer is heard below the subject `inbox`. Raises OSError without a server.
    """
    reply = f"{inbox}.{secrets.token_hex(8)}"
    connection, parser = dial(
        settings.nats_url, settings.nats_seed(), f"{name}-health", settings.tls_authority_file
    )
    deadline_s = time.monotonic() + within_s
    with connection:
        connection.sendall(subscription(reply) + publication(subject, reply, b""))
        while (left_s := deadline_s - time.monotonic()) > 0:
            connection.settimeout(left_s)
            try:
                received = connection.recv(CHUNK_BYTES)
            except TimeoutError:
                return False
            if not received:
                raise ConnectionResetError("the server closed the connection")
            for frame in parser.feed(received):
                if frame.kind == "MSG":
                    return True
                if frame.kind == "ERR":
                    raise PermissionError(frame.body.decode(errors="replace"))
                if frame.kind == "PING":
                    connection.sendall(PONG)
    return False
