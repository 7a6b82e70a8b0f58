"""A receiver of OTLP/HTTP on the loopback, which keeps the spans that it gets."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ReceivedSpan:
    """One span; ids in hex, times in epoch ns."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    start_ns: int
    end_ns: int
    attributes: dict[str, str]
    is_failed: bool


@dataclass
class Receiver:
    """Where spans are sent, and those that came."""

    address: str
    spans: list[ReceivedSpan] = field(default_factory=list)

    def of(self, evaluation: str) -> list[ReceivedSpan]:
        """Return the spans of an evaluation."""
        return [
            span for span in self.spans if span.attributes.get("mlscope.evaluation") == evaluation
        ]

    def take(self, body: bytes) -> None:
        """Keep the spans of one export."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    own = {e.key: e.value.string_value for e in span.attributes}
                    self.spans.append(
                        ReceivedSpan(
                            named["service.name"],
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            span.start_time_unix_nano,
                            span.end_time_unix_nano,
                            own,
                            span.status.code == 2,
                        )
                    )


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Receive spans for the length of a block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_packed = self.headers.get("Content-Encoding") == "gzip"
            receiver.take(gzip.decompress(body) if is_packed else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
