"""I/O: one blocking question over a connection of its own, for health checks."""

import secrets
import time
from contextlib import closing

from mlscope.bus.nats.dialing import dial
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.nats.wire import PONG, publication, subscription


def is_answered(
    settings: NatsSettings, name: str, subject: str, *, inbox: str, within_s: float
) -> bool:
    """Ask on `subject` and tell whether an answer comes within `within_s` seconds.

    `settings` say where the servers are and which key is used; `name` is the connection's name. The
    answer is heard below the subject `inbox`. Of several servers one may be cut off from the
    others: each is asked in turn, for its share of the time. Raises OSError without a server.
    """
    urls = settings.nats_url.split(",")
    failures: list[OSError] = []
    for url in urls:
        try:
            if _answers_over(url, settings, name, subject, inbox, within_s / len(urls)):
                return True
        except OSError as error:
            failures.append(error)
    if len(failures) == len(urls):
        raise failures[-1]
    return False


def _answers_over(
    url: str, settings: NatsSettings, name: str, subject: str, inbox: str, within_s: float
) -> bool:
    """Ask through the server at `url`; the rest is as in `is_answered`."""
    reply = f"{inbox}.{secrets.token_hex(8)}"
    deadline_s = time.monotonic() + within_s
    connection, parser = dial(
        url,
        settings.nats_seed(),
        f"{name}-health",
        settings.tls_authority_file,
        timeout_s=within_s,
        broker_uid=settings.broker_uid,
    )
    with closing(connection):
        connection.sendall(subscription(reply) + publication(subject, reply, b""))
        while (left_s := deadline_s - time.monotonic()) > 0:
            connection.settimeout(left_s)
            try:
                received = connection.recv()
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
