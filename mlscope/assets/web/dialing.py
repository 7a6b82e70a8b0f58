"""Connections to the hosts that may be fetched from, and to no other.

What counts is the resolved address that is connected to, so that neither a redirect nor a name that
resolves differently the second time leads elsewhere.
"""

import http.client
import math
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Timer
from typing import Any
from urllib.parse import urlsplit

from mlscope.assets.options import AllowedHosts

_Resolved = tuple[socket.AddressFamily, tuple[Any, ...]]


class Dialing:
    """Opens the connections of one download, to `allowed` hosts alone."""

    def __init__(self, allowed: AllowedHosts) -> None:
        """Allow these hosts."""
        self._allowed = allowed
        self._open: list[socket.socket] = []
        self._ends_s: list[float] = []  # of the blocks that run, on the monotonic clock

    def handlers(self) -> tuple[urllib.request.BaseHandler, ...]:
        """Return the handlers of `http:` and `https:` addresses for an opener of urllib."""
        dialing = self

        class Plain(urllib.request.HTTPHandler):
            def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
                connection = partial(_dialed, http.client.HTTPConnection, dialing.dial_for(req))
                return self.do_open(connection, req)

        class Encrypted(urllib.request.HTTPSHandler):
            def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
                connection = partial(_dialed, http.client.HTTPSConnection, dialing.dial_for(req))
                return self.do_open(connection, req)

        return (Plain(), Encrypted())

    def dial_for(self, request: urllib.request.Request) -> "_Dial":
        """Return what connects for a `request`. Raises HostNotAllowed.

        A proxy is the owner's choice. It resolves names itself, so that the host is checked by what
        it resolves to here; a name that does not resolve here passes.
        """
        is_proxied = request.has_proxy() or bool(getattr(request, "_tunnel_host", None))
        if not is_proxied:
            return self._dial
        parts = urlsplit(request.full_url)
        host = parts.hostname or ""
        try:
            addresses = [str(address[0]) for _, address in _resolved(host, parts.port or 443)]
        except OSError:
            addresses = []
        self._allowed.check(host, addresses)
        return self._dial_unchecked

    @contextmanager
    def within(self, limit_s: float) -> Iterator[None]:
        """End the open connections where the block lasts longer than `limit_s`.

        A time-out of a socket is one of silence: a byte a second keeps a connection open for ever.
        Raises TimeoutError.
        """
        is_late = Event()
        end_s = time.monotonic() + limit_s
        self._ends_s.append(end_s)
        timer = Timer(limit_s, self._end, (is_late,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            self._ends_s.remove(end_s)
            if is_late.is_set() or time.monotonic() >= end_s:
                raise TimeoutError(f"no complete answer within {limit_s:.3g} s")

    def close(self) -> None:
        """Close what ends connections early."""
        while self._open:
            self._open.pop().close()

    def _end(self, is_late: Event) -> None:
        is_late.set()
        for twin in tuple(self._open):
            try:
                twin.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def _dial(
        self, place: tuple[str, int], timeout_s: float, *_: object, is_checked: bool = True
    ) -> socket.socket:
        host, port = place
        resolved = _resolved(host, port)
        if is_checked:
            self._allowed.check(host, [str(address[0]) for _, address in resolved])
        failure = OSError("no address")
        for family, address in resolved:
            remaining_s = self._remaining_s()
            dialed = socket.socket(family, socket.SOCK_STREAM)
            try:
                dialed.settimeout(min(timeout_s, remaining_s))
                self._open.append(dialed.dup())  # TLS takes the socket over, not what it refers to
                dialed.connect(address)
                self._remaining_s()
            except OSError as error:
                dialed.close()
                failure = error
            else:
                dialed.settimeout(timeout_s)
                return dialed
        raise failure

    def _remaining_s(self) -> float:
        """Return the time that the blocks of `within` leave. Raises TimeoutError."""
        remaining_s = min(self._ends_s, default=math.inf) - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError("no time is left to connect")
        return remaining_s

    def _dial_unchecked(
        self, place: tuple[str, int], timeout_s: float, *_: object
    ) -> socket.socket:
        return self._dial(place, timeout_s, is_checked=False)


_Dial = Callable[..., socket.socket]


def _resolved(host: str, port: int) -> list[_Resolved]:
    """Return the addresses of a host. Raises OSError."""
    resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in resolved]


def _dialed(
    kind: type[http.client.HTTPConnection], dial: _Dial, *place: Any, **options: Any
) -> http.client.HTTPConnection:
    """Return a connection of a `kind` that `dial` connects."""
    connection = kind(*place, **options)
    # No public part of http.client connects and nothing else: `connect` also opens a proxy's tunnel
    # and begins TLS. CPython's own tests replace this attribute.
    connection._create_connection = dial  # type: ignore[attr-defined]  # noqa: SLF001
    return connection
