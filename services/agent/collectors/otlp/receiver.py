"""An OTLP/HTTP receiver on this machine: POST /v1/traces, protobuf or JSON, gzip or not (I/O).

https://opentelemetry.io/docs/specs/otlp/#otlphttp. The sizes of bodies and the numbers of waiting
spans and connections are bounded. A malformed request is answered with the reason; the receiver
goes on. Only programs of this process's user, and of root, are heard.
"""

import http.server
import json
import logging
import os
import socketserver
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from mlscope.peers import are_known, owner_of
from mlscope.protobuf import bytes_field, varint_field
from services.agent.collectors.errors import UploadRefused
from services.agent.collectors.otlp.decoding import response, spans_in_json, spans_in_protobuf
from services.agent.collectors.otlp.spans import TRACES_PATH, ExportedSpan

MAX_BODY_BYTES = 8 << 20
"""Size of one request, both as it is sent and when unpacked."""

MAX_WAITING = 50_000
"""Spans kept between two reads; more are dropped and counted, and the sender is informed."""

_MAX_CONNECTIONS = 16
_MAX_LINE_BYTES = 100
_IDLE_TIMEOUT_S = 30.0
_STOP_POLL_S = 0.05
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_READERS: Mapping[str, Callable[[bytes], list[ExportedSpan]]] = MappingProxyType(
    {_PROTOBUF: spans_in_protobuf, _JSON: spans_in_json}
)
_log = logging.getLogger(__name__)


class Receiver:
    """Received spans, kept until they are read; thread-safe."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Start to listen. Raises OSError where the address is not available."""
        self._lock = threading.Lock()
        self._waiting: list[ExportedSpan] = []
        self._dropped = 0
        self._refused = 0
        self._server = _Server((host, port), _Request, self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_STOP_POLL_S,), name="otlp", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Return the address that it listens at, without a path."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def put(self, spans: Sequence[ExportedSpan]) -> int:
        """Keep spans while there is room; return how many were dropped."""
        with self._lock:
            room = max(MAX_WAITING - len(self._waiting), 0)
            self._waiting += spans[:room]
            dropped = max(len(spans) - room, 0)
            self._dropped += dropped
        return dropped

    def refuse(self) -> None:
        """Count a request that could not be read."""
        with self._lock:
            self._refused += 1

    def take(self) -> tuple[list[ExportedSpan], int, int]:
        """Remove and return the spans, the number dropped, and the number of requests refused."""
        with self._lock:
            received = self._waiting, self._dropped, self._refused
            self._waiting, self._dropped, self._refused = [], 0, 0
        return received

    def close(self) -> None:
        """Stop listening and close every connection."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


_OWN_HOSTS = ("127.0.0.1", "localhost", "[::1]", "")
"""Names of this machine; a page's name may lead here as well. HTTP/1.0 needs none."""


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """One thread per connection, up to a limit; connections beyond it are closed."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = _MAX_CONNECTIONS

    def __init__(
        self, address: tuple[str, int], handler: "type[_Request]", receiver: Receiver
    ) -> None:
        self.receiver = receiver
        self._free = threading.Semaphore(_MAX_CONNECTIONS)
        super().__init__(address, handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Tell whether this process's own user sends, or root; others may not add spans."""
        sender = owner_of(client_address[:2], request.getsockname()[:2])
        # An exporter waits for its answer: who has closed already does not want to be known.
        return not are_known() if sender is None else sender in (0, os.geteuid())

    def process_request(self, request: object, client_address: object) -> None:
        """Answer a connection in a thread of its own, unless the limit is reached."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Answer a connection until it is closed."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """Log a connection that failed."""
        _log.info("an OTLP connection failed", exc_info=True)


class _Request(http.server.BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"
    server_version = "mlscope"
    sys_version = ""
    timeout = _IDLE_TIMEOUT_S
    server: _Server

    def _refuse_pages(self) -> None:
        """Raise UploadRefused for what a website's page sends, by a browser of this user."""
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if self.headers.get("Origin") is not None or host not in _OWN_HOSTS:
            raise UploadRefused(HTTPStatus.FORBIDDEN, "send spans to 127.0.0.1, not by a page")

    def do_POST(self) -> None:
        """Receive an export."""
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        try:
            self._refuse_pages()
            body = self._body()
            if self.path.partition("?")[0] != TRACES_PATH:
                raise UploadRefused(HTTPStatus.NOT_FOUND, f"the only path here is {TRACES_PATH}")
            spans = spans_in(body, kind, self.headers.get("Content-Encoding", ""))
        except UploadRefused as error:
            self.server.receiver.refuse()
            # Each form is a google.rpc.Status with the code INVALID_ARGUMENT and the reason.
            if kind == _PROTOBUF:
                reason = error.reason.encode("utf-8", "replace")
                status = varint_field(1, 3) + bytes_field(2, reason)
            else:
                status = json.dumps({"code": 3, "message": error.reason}).encode()
            self._answer(error.status, kind, status)
        else:
            rejected = self.server.receiver.put(spans)
            self._answer(HTTPStatus.OK, kind, response(rejected, is_json=kind == _JSON))

    def log_message(self, *_: object) -> None:
        """Log nothing per request."""

    def _body(self) -> bytes:
        """Return the body as sent. Raises UploadRefused and closes the connection afterwards."""
        try:
            if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
                return self._chunks()
            length = int(self.headers.get("Content-Length", "0"))
            if length < 0:
                raise ValueError("Content-Length is below 0")
            _check_size(length)
            return self.rfile.read(length)
        except ValueError as error:
            self.close_connection = True
            raise UploadRefused(HTTPStatus.BAD_REQUEST, str(error)) from error
        except UploadRefused:
            self.close_connection = True
            raise

    def _chunks(self) -> bytes:
        """Return a body with chunked transfer coding (RFC 9112, 7.1)."""
        body = bytearray()
        while size := int(self.rfile.readline(_MAX_LINE_BYTES).partition(b";")[0], 16):
            if size < 0:
                raise ValueError("a chunk's size is below 0")
            _check_size(len(body) + size)
            body += self.rfile.read(size)
            self.rfile.readline(_MAX_LINE_BYTES)
        while self.rfile.readline(_MAX_LINE_BYTES).strip():
            pass  # trailers
        return bytes(body)

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind if kind in _READERS else _JSON)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def spans_in(body: bytes, kind: str, encoding: str) -> list[ExportedSpan]:
    """Return the spans in the `body` of a request. Raises UploadRefused.

    `kind` is its content type, without parameters and in lower case, and `encoding` its content
    encoding.
    """
    read = _READERS.get(kind)
    if read is None:
        raise UploadRefused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send {_PROTOBUF} or {_JSON}, not {kind:.80}"
        )
    encoding = encoding.strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise UploadRefused(HTTPStatus.BAD_REQUEST, f"send gzip or identity, not {encoding:.80}")
    try:
        return read(unpacked(body) if encoding == "gzip" else body)
    except ValueError as error:
        raise UploadRefused(
            HTTPStatus.BAD_REQUEST, f"this is not an OTLP trace request: {error}"
        ) from error


def unpacked(body: bytes) -> bytes:
    """Return the content of all gzip members. Raises ValueError; UploadRefused where too large."""
    content = bytearray()
    while body:
        decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            content += decompressor.decompress(body, MAX_BODY_BYTES + 1 - len(content))
        except zlib.error as error:
            raise ValueError(f"the body is not gzip: {error}") from error
        _check_size(len(content))
        if not decompressor.eof:
            raise ValueError("the gzip body is cut short")
        body = decompressor.unused_data
    return bytes(content)


def _check_size(size: int) -> None:
    if size > MAX_BODY_BYTES:
        raise UploadRefused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have at most {MAX_BODY_BYTES} bytes"
        )
