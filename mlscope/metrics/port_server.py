"""The server behind a port of metrics: few connections at a time, each for a few seconds."""

import math
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

MOST_CONNECTIONS = 8
"""How many connections have a thread. The port asks for no login, and each thread takes memory."""

CONNECTION_S = 10.0
"""How long a connection may last: Prometheus waits no longer for a scrape either."""

GRACE_S = 0.1
"""How long a connection is left alone although others wait: enough to send a request."""


class _SilentHandler(WSGIRequestHandler):
    """Answers one request, and logs none."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the library's name)
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """Has a thread for each connection, up to `MOST_CONNECTIONS`.

    When all are taken, the oldest connection is closed for the next one, which waits until its
    thread has ended. So whoever holds connections keeps no scrape from being answered.
    """

    daemon_threads = True
    # Those that wait are few enough for each to have its turn before Prometheus gives up.
    request_queue_size = 64

    def __init__(self, host: str, port: int) -> None:
        """Listen. Raises OSError."""
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, _, _, _, address = addresses[0]
        # When each connection began, the oldest first; never, for one that was told to end.
        self._begun_s: dict[socket.socket, float] = {}
        self._changed = threading.Condition()
        self._is_closing = False
        super().__init__((str(address[0]), port), _SilentHandler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Wait for room, and answer in a thread."""
        with self._changed:
            while len(self._begun_s) >= MOST_CONNECTIONS and not self._is_closing:
                self._cut_older_than(GRACE_S, most=1)
                self._changed.wait(GRACE_S / 4)
            self._begun_s[request] = time.monotonic()
            if self._is_closing:
                self._cut_older_than(0.0)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close the connections that have lasted too long; called twice a second."""
        with self._changed:
            self._cut_older_than(CONNECTION_S)

    def _cut_older_than(self, age_s: float, most: int = MOST_CONNECTIONS) -> None:
        """End the oldest connections, at most `most`; their threads notice, and close them."""
        until_s = time.monotonic() - age_s
        old = [connection for connection, begun_s in self._begun_s.items() if begun_s <= until_s]
        for connection in old[:most]:
            self._begun_s[connection] = math.inf
            with suppress(OSError):  # its other end has closed it
                connection.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that was answered, or ended; its thread has nothing more to do."""
        # Closed under the lock: its descriptor may be that of another connection right after.
        with self._changed:
            self._begun_s.pop(request, None)
            super().shutdown_request(request)
            self._changed.notify()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say on stderr what went wrong, unless a connection ended: anybody may cut theirs."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """Stop listening, and end all connections; wait for none."""
        with self._changed:
            self._is_closing = True
            self._cut_older_than(0.0)
            self._changed.notify()
        self.shutdown()
        self.server_close()


def serve_registry(host: str, port: int, registry: CollectorRegistry) -> Callable[[], None]:
    """Answer at `host` and `port` with what `registry` collects, from threads of its own.

    Returns what closes the port. Raises OSError when it is in use.
    """
    server = _Server(host, port)
    server.set_app(make_wsgi_app(registry))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def close() -> None:
        server.close()
        thread.join()

    return close
