"""I/O: requests of a receiver of spans, which may answer too much, too slowly, or not be the one.

Of its answer the status is of use alone. Whoever answers in a receiver's place must neither fill
this process's memory, nor hold the thread that exports, nor send what is exported elsewhere.
"""

import http.client
import io
import socket
import time
from contextlib import suppress
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse
from urllib3.exceptions import HTTPError

_MOST_ANSWER_BYTES = 64 * 1024


class BoundedSession(requests.Session):
    """Reads answers up to 64 KiB, and as long as a request's timeout; follows no redirection.

    A body that is longer, or comes later, is cut off: the status counts. A status and headers that
    come later raise `requests.Timeout`. The time begins when the request is sent.
    """

    def __init__(self) -> None:
        """Keep no cookies: a receiver could fill the memory with them."""
        super().__init__()
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
        for scheme in ("http://", "https://"):
            self.mount(scheme, _TimedAdapter())

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request, and read its answer, whose content is left as it was packed."""
        response = super().send(request, **{**options, "stream": True})
        body = b""
        with response, suppress(HTTPError):
            body = response.raw.read(_MOST_ANSWER_BYTES, decode_content=False)
        response.raw = HTTPResponse(io.BytesIO(body), preload_content=False)
        return response

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None: `requests` would send keys along, in all headers but `Authorization`."""


class _TimedAdapter(HTTPAdapter):
    """Makes connections whose answers have an end."""

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> Any:
        """Return the connections to a receiver or its proxy."""
        pool = super().get_connection_with_tls_context(*args, **options)
        kind: Any = pool.ConnectionCls
        if kind.response_class is not _TimedAnswer:
            pool.ConnectionCls = type(kind.__name__, (kind,), {"response_class": _TimedAnswer})
        return pool


class _TimedAnswer(http.client.HTTPResponse):
    """An answer that is there, from the status to the end, within the timeout of its socket."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        limit_s = sock.gettimeout()
        if limit_s is not None:
            buffered: Any = self.fp
            until_s = time.monotonic() + limit_s
            self.fp = io.BufferedReader(_TimedReader(sock, buffered.detach(), until_s))


class _TimedReader(io.RawIOBase):
    """Reads a socket until a moment (of the monotonic clock); a timeout alone is for one piece."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, until_s: float) -> None:
        super().__init__()
        self._sock, self._raw, self._until_s = sock, raw, until_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left_s)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
