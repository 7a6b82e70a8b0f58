"""A tracer and receivers that answer too much, too slowly, or from elsewhere."""

import gzip
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra `telemetry`")
from mlscope.telemetry import tracer as tracers
from mlscope.telemetry.session import BoundedSession
from mlscope.telemetry.tracer import Tracer

LARGE_BYTES, MOST_BYTES = 50_000_000, 4_000_000
SOON_S = 5.0


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[tuple[str, list[str]]]:
    """Lend the address of a receiver that gives an `answer`, and the keys of its requests."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            requests.append(str(self.headers["api-key"]))
            with suppress(OSError):
                answer(self)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def export_to(address: str, spans: int = 1) -> float:
    """Export spans, each by itself; return how long that took, in seconds."""
    tracer = Tracer("agent", address, {})
    before_s = time.monotonic()
    for number in range(spans):
        tracer.begin(str(number), "").end()
        tracer._provider.force_flush()
    tracer.close()
    return time.monotonic() - before_s


def answer_with(code: int, body: bytes, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.mark.parametrize("code", [200, 307, 400])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_large_answer_is_not_held(code: int, encoding: str) -> None:
    plain = b"x" * LARGE_BYTES
    body = gzip.compress(plain, 1) if encoding == "gzip" else plain
    del plain
    answer = answer_with(code, body, Content_Encoding=encoding, Location="/elsewhere")
    with answering(answer) as (address, requests):
        tracemalloc.start()
        try:
            export_to(address)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(requests) == 1
    assert peak_bytes < MOST_BYTES


def drip_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    drip(handler, b"x")


def drip_chunks(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    drip(handler, b"1\r\nx\r\n")


def drip_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    drip(handler, b"X: y\r\n")


def drip_interim_answers(handler: BaseHTTPRequestHandler) -> None:
    drip(handler, b"HTTP/1.1 100 Continue\r\n\r\n")


def drip(handler: BaseHTTPRequestHandler, piece: bytes) -> None:
    until_s = time.monotonic() + SOON_S * 2
    while time.monotonic() < until_s:
        handler.wfile.write(piece)
        handler.wfile.flush()
        time.sleep(0.2)


@pytest.mark.parametrize("answer", [drip_body, drip_chunks, drip_headers, drip_interim_answers])
def test_an_answer_that_drips_does_not_hold_an_export(
    answer: Callable[[BaseHTTPRequestHandler], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracers, "_SENT_WITHIN_S", 1.0)
    with answering(answer) as (address, requests):
        assert export_to(address) < SOON_S
    assert len(requests) == 1


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_other_address_gets_a_receiver_s_key(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the headers of a request, only `Authorization` would be left out.

    The exporter itself follows redirections in some of its releases.
    """
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret")
    with answering(answer_with(200, b"")) as (elsewhere, requests_elsewhere):
        answer = answer_with(code, b"", Location=f"{elsewhere}/v1/traces")
        with answering(answer) as (address, requests):
            export_to(address)
            BoundedSession().post(address, b"", headers={"api-key": "secret"}, timeout=SOON_S)
    assert requests == ["secret"] * 2
    assert requests_elsewhere == []


def test_short_answers_leave_the_connection_open() -> None:
    """No cookie is kept, of which a receiver could send more each time."""
    ports, cookies = set(), []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        ports.add(handler.client_address)
        cookies.append(handler.headers["Cookie"])
        answer_with(200, b"{}", Set_Cookie="kept=1")(handler)

    with answering(answer) as (address, requests):
        export_to(address, spans=3)
    assert len(requests) == 3
    assert len(ports) == 1
    assert cookies == [None] * 3


def test_the_start_of_an_answer_can_be_read() -> None:
    """The exporter logs it in some of its releases."""
    with answering(answer_with(400, b"no such path")) as (address, _):
        assert BoundedSession().post(address, timeout=SOON_S).text == "no such path"
    with answering(answer_with(400, b"x" * 100_000)) as (address, _):
        assert BoundedSession().post(address, timeout=SOON_S).text == "x" * 65536
