"""An OTLP/HTTP receiver on this machine: POST /v1/traces, protobuf or JSON, gzip or not (I/O).

https://opentelemetry.io/docs/specs/otlp/#otlphttp. Bodies, spans that wait and connections are
bounded; what is no request is answered with what is wrong with it, and ends nothing.
"""

import http.server
import json
import logging
import socketserver
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType

from mlscope.exchange.perfetto import number, text
from services.agent.collectors.otlp_json import spans_in_json
from services.agent.collectors.otlp_protobuf import spans_in_protobuf
from services.agent.collectors.otlp_spans import ToldSpan

PATH = "/v1/traces"
MOST_BODY_BYTES = 8 << 20
"""Of one request, as it comes and as it is unpacked."""

MOST_WAITING = 50_000
"""Spans between two takings; what comes after is dropped, counted, and told its sender."""

_MOST_CONNECTIONS = 16
_MOST_LINE_BYTES = 100
_SILENT_S = 30.0
_STOP_POLL_S = 0.05
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_READERS: Mapping[str, Callable[[bytes], list[ToldSpan]]] = MappingProxyType(
    {_PROTOBUF: spans_in_protobuf, _JSON: spans_in_json}
)
_log = logging.getLogger(__name__)


class RequestRefused(Exception):
    """A request can't be taken."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        """Say how it is answered, and why."""
        self.status, self.reason = status, reason
        super().__init__(reason)


class Receiver:
    """Spans that came, until they are taken; any thread may ask it."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen at once. Raises OSError where the address can't be had."""
        self._lock = threading.Lock()
        self._waiting: list[ToldSpan] = []
        self._dropped = 0
        self._refused = 0
        self._server = _Server((host, port), _Request, self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_STOP_POLL_S,), name="otlp", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Return where it listens, without a path."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def put(self, spans: Sequence[ToldSpan]) -> int:
        """Keep spans while there is room; return how many found none."""
        with self._lock:
            room = max(MOST_WAITING - len(self._waiting), 0)
            self._waiting += spans[:room]
            dropped = max(len(spans) - room, 0)
            self._dropped += dropped
        return dropped

    def refuse(self) -> None:
        """Count a request that could not be read."""
        with self._lock:
            self._refused += 1

    def take(self) -> tuple[list[ToldSpan], int, int]:
        """Remove and return the spans, how many were dropped, how many requests refused."""
        with self._lock:
            taken = self._waiting, self._dropped, self._refused
            self._waiting, self._dropped, self._refused = [], 0, 0
        return taken

    def close(self) -> None:
        """Hang up on everybody."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A thread a connection, up to a bound; further ones are hung up on."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = _MOST_CONNECTIONS

    def __init__(
        self, address: tuple[str, int], handler: "type[_Request]", receiver: Receiver
    ) -> None:
        self.receiver = receiver
        self._free = threading.Semaphore(_MOST_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: object, client_address: object) -> None:
        """Answer a connection in a thread of its own, where one is free."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Answer a connection until it is hung up."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """Say in the log that a connection broke."""
        _log.info("a connection of OTLP broke", exc_info=True)


class _Request(http.server.BaseHTTPRequestHandler):
    """One connection's requests."""

    protocol_version = "HTTP/1.1"
    server_version = "mlscope"
    sys_version = ""
    timeout = _SILENT_S
    server: _Server

    def do_POST(self) -> None:
        """Take an export."""
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        try:
            body = self._body()
            if self.path.partition("?")[0] != PATH:
                raise RequestRefused(HTTPStatus.NOT_FOUND, f"only {PATH} is known here")
            spans = _read(kind, self.headers.get("Content-Encoding", ""), body)
        except RequestRefused as error:
            self.server.receiver.refuse()
            self._answer(error.status, kind, _status(kind, error.reason))
        else:
            rejected = self.server.receiver.put(spans)
            self._answer(HTTPStatus.OK, kind, _answered(kind, rejected))

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""

    def _body(self) -> bytes:
        """Return the body as it came. Raises RequestRefused, after which no other can be read."""
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
            raise RequestRefused(HTTPStatus.BAD_REQUEST, str(error)) from error
        except RequestRefused:
            self.close_connection = True
            raise

    def _chunks(self) -> bytes:
        """Return a body that came in chunks (RFC 9112, 7.1)."""
        body = bytearray()
        while size := int(self.rfile.readline(_MOST_LINE_BYTES).partition(b";")[0], 16):
            if size < 0:
                raise ValueError("a chunk's size is below 0")
            _check_size(len(body) + size)
            body += self.rfile.read(size)
            self.rfile.readline(_MOST_LINE_BYTES)
        while self.rfile.readline(_MOST_LINE_BYTES).strip():
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


def _read(kind: str, encoding: str, body: bytes) -> list[ToldSpan]:
    """Return the spans of a body. Raises RequestRefused."""
    read = _READERS.get(kind)
    if read is None:
        raise RequestRefused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send {_PROTOBUF} or {_JSON}, not {kind:.80}"
        )
    encoding = encoding.strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise RequestRefused(HTTPStatus.BAD_REQUEST, f"send gzip or identity, not {encoding:.80}")
    try:
        return read(_unpacked(body) if encoding == "gzip" else body)
    except ValueError as error:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, f"no traces: {error}") from error


def _unpacked(body: bytes) -> bytes:
    """Return what gzip packed, all its members. Raises ValueError, RequestRefused."""
    whole = bytearray()
    while body:
        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            whole += unpacking.decompress(body, MOST_BODY_BYTES + 1 - len(whole))
        except zlib.error as error:
            raise ValueError(f"is no gzip: {error}") from error
        _check_size(len(whole))
        if not unpacking.eof:
            raise ValueError("its gzip is cut short")
        body = unpacking.unused_data
    return bytes(whole)


def _check_size(size: int) -> None:
    if size > MOST_BODY_BYTES:
        raise RequestRefused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MOST_BODY_BYTES} bytes"
        )


def _answered(kind: str, rejected: int) -> bytes:
    """Return an ExportTraceServiceResponse; it says what was dropped."""
    reason = "too many spans wait here"
    if kind == _JSON:
        partial = {"rejectedSpans": str(rejected), "errorMessage": reason}
        return json.dumps({"partialSuccess": partial} if rejected else {}).encode()
    return text(1, number(1, rejected) + text(2, reason)) if rejected else b""


def _status(kind: str, reason: str) -> bytes:
    """Return a google.rpc.Status: INVALID_ARGUMENT, and why."""
    if kind == _PROTOBUF:
        return number(1, 3) + text(2, reason.encode("utf-8", "replace"))
    return json.dumps({"code": 3, "message": reason}).encode()
