"""The receiver of OTLP/HTTP by its wire, and what its collector makes of a block's time."""

import contextlib
import gzip
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from mlscope.tracing.clock import epoch_offset_ns, now_ns
from mlscope.tracing.propagation import OUTGOING_REQUESTS
from schemas.batch import SpanKind
from services.agent.collectors import Collected, CollectorRequest
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.collectors.otlp import collector as otlp
from services.agent.collectors.otlp import receiver as otlp_receiver
from services.agent.collectors.otlp.receiver import Receiver
from services.agent.collectors.otlp.spans import ExportedSpan
from services.agent.collectors.preparing import prepare_collectors
from services.agent.predictors import Opened
from services.agent.worker.sandbox.sandbox import reach_of
from tests.services.agent.collectors.exports import an_export

OPENED = Opened("onnxruntime", "1", (), (), "cpu", "", "float32", 1, {})
JSON, PROTOBUF = "application/json", "application/x-protobuf"
ENVIRONMENT = tuple(
    f"OTEL_{name}"
    for name in (
        "EXPORTER_OTLP_ENDPOINT",
        "EXPORTER_OTLP_TRACES_ENDPOINT",
        "BSP_SCHEDULE_DELAY",
        "EXPORTER_OTLP_PROTOCOL",
        "EXPORTER_OTLP_TRACES_PROTOCOL",
    )
)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    listening = Receiver()
    yield listening
    listening.close()


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the process's environment and receivers to each test."""
    for name in ENVIRONMENT:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    yield
    otlp.RECEIVERS.close()


def post(
    url: str, body: bytes, kind: str = JSON, path: str = "/v1/traces", **headers: str
) -> tuple[int, bytes]:
    """Send a body and return how it was answered."""
    given = {"Content-Type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}}
    with contextlib.closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)) as peer:
        peer.request("POST", path, body, given)
        answer = peer.getresponse()
        return answer.status, answer.read()


def sent(told: Mapping[str, Any]) -> bytes:
    return json.dumps(told).encode()


def an_export_in_protobuf(name: str) -> bytes:
    export = ExportTraceServiceRequest()
    export.resource_spans.add().scope_spans.add().spans.add(name=name)
    return bytes(export.SerializeToString())


def names(receiver: Receiver) -> list[str]:
    return [each.name for each in receiver.take()[0]]


def test_json_and_protobuf_are_taken_packed_and_not(receiver: Receiver) -> None:
    body = sent(an_export("json", 1, 2))
    assert post(receiver.url, body) == (200, b"{}")
    assert post(receiver.url, body, JSON + "; charset=utf-8") == (200, b"{}")
    assert post(receiver.url, an_export_in_protobuf("protobuf"), PROTOBUF) == (200, b"")
    packed = gzip.compress(an_export_in_protobuf("gz")) + gzip.compress(an_export_in_protobuf("ip"))
    assert post(receiver.url, packed, PROTOBUF, Content_Encoding="gzip") == (200, b"")
    assert names(receiver) == ["json", "json", "protobuf", "gz", "ip"]
    assert receiver.take() == ([], 0, 0)


@pytest.mark.parametrize(
    ("body", "kind", "encoding", "status"),
    [
        (b"{", JSON, "", 400),
        (b"[]", JSON, "", 400),
        (b"\xff\xfe", JSON, "", 400),
        (b"\x0a\x7f", PROTOBUF, "", 400),
        (b"no gzip", JSON, "gzip", 400),
        (gzip.compress(b"{}" * 99, mtime=0)[:-9], JSON, "gzip", 400),
        (b"{}", JSON, "br", 400),
        (b"a=b", "application/x-www-form-urlencoded", "", 415),
        (gzip.compress(bytes(9 << 20), mtime=0), PROTOBUF, "gzip", 413),
    ],
)
def test_what_is_no_export_is_refused_and_the_next_is_taken(
    receiver: Receiver, body: bytes, kind: str, encoding: str, status: int
) -> None:
    found, said = post(receiver.url, body, kind, Content_Encoding=encoding)
    assert found == status
    assert said
    assert post(receiver.url, sent(an_export("next", 1, 2)))[0] == 200
    taken, dropped, refused = receiver.take()
    assert ([each.name for each in taken], dropped, refused) == (["next"], 0, 1)


def test_other_paths_and_methods_are_no_receiver(receiver: Receiver) -> None:
    assert post(receiver.url, b"{}", path="/v1/metrics")[0] == 404
    with contextlib.closing(http.client.HTTPConnection(urlsplit(receiver.url).netloc)) as peer:
        peer.request("GET", "/v1/traces")
        assert peer.getresponse().status == 501


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://page.example"}, 403),
        ({"Host": "page.example:4318"}, 403),
        ({"Host": "page.example"}, 403),
        ({"Host": "localhost:4318"}, 200),
        ({"Host": "[::1]:4318"}, 200),
        ({"Host": "127.0.0.1"}, 200),
    ],
)
def test_a_page_in_a_browser_adds_no_spans(
    receiver: Receiver, headers: dict[str, str], status: int
) -> None:
    """Its name may lead to this machine, and the kernel says that the browser is the user's."""
    assert post(receiver.url, sent(an_export("page", 1, 2)), **headers)[0] == status
    assert names(receiver) == ["page"] * (status == 200)


def _raw(receiver: Receiver, request: bytes) -> bytes:
    """Send bytes and return the first of the answer."""
    host, _, port = urlsplit(receiver.url).netloc.partition(":")
    with socket.create_connection((host, int(port)), 60) as peer:
        peer.sendall(request)
        peer.shutdown(socket.SHUT_WR)
        return peer.recv(4096)


def _request(*headers: str) -> bytes:
    told = (
        "POST /v1/traces HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Type: {JSON}",
        *headers,
        "",
        "",
    )
    return "\r\n".join(told).encode()


def test_bodies_in_chunks_are_taken(receiver: Receiver) -> None:
    body = sent(an_export("pieces", 1, 2))
    pieces = [body[:7], body[7:]]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in pieces)
    head = _request("Transfer-Encoding: chunked")
    assert _raw(receiver, head + chunks + b"0\r\n\r\n").startswith(b"HTTP/1.1 200")
    assert names(receiver) == ["pieces"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("Content-Length: none", b"400"),
        ("Content-Length: -5", b"400"),
        ("Content-Length: 99999999999", b"413"),
        ("Transfer-Encoding: chunked", b"400"),
        ("Content-Length: 50", b"400"),
    ],
)
def test_bodies_of_no_or_false_length_are_refused(
    receiver: Receiver, head: str, status: bytes
) -> None:
    assert _raw(receiver, _request(head)).startswith(b"HTTP/1.1 " + status)
    assert post(receiver.url, sent(an_export("next", 1, 2)))[0] == 200


def test_spans_beyond_the_bound_are_dropped_counted_and_told(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_receiver, "MAX_WAITING", 1)
    assert post(receiver.url, sent(an_export("kept", 1, 2))) == (200, b"{}")
    _, answer = post(receiver.url, sent(an_export("dropped", 1, 2)))
    assert json.loads(answer)["partialSuccess"]["rejectedSpans"] == "1"
    _, answer = post(receiver.url, an_export_in_protobuf("dropped"), PROTOBUF)
    told = ExportTraceServiceResponse.FromString(answer)
    assert told.partial_success.rejected_spans == 1
    taken, dropped, _ = receiver.take()
    assert ([each.name for each in taken], dropped) == (["kept"], 2)


def test_several_senders_are_heard_at_once(receiver: Receiver) -> None:
    def send(number: int) -> None:
        for _ in range(5):
            post(receiver.url, sent(an_export(f"{number}", 1, 2)))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(names(receiver)) == sorted([*"0123"] * 5)


def opened(**options: Any) -> otlp.OtlpCollector:
    return otlp.open_collector(CollectorRequest(OPENED, 1, {"flush_s": 0, **options}))  # type: ignore[arg-type]


def url_of(collector: otlp.OtlpCollector) -> str:
    return collector._receiver.url


def put(collector: otlp.OtlpCollector, name: str, start_ns: int, end_ns: int, **more: Any) -> None:
    """Send a span whose times are of CLOCK_MONOTONIC."""
    offset = epoch_offset_ns()
    told = an_export(name, start_ns + offset, end_ns + offset, **more)
    assert post(url_of(collector), sent(told))[0] == 200


def found(collected: Collected) -> list[str]:
    return [each.name for each in collected.spans]


def test_spans_in_a_blocks_time_are_its() -> None:
    collector = opened()
    put(collector, "warm-up", now_ns() - 50_000_000, now_ns() - 40_000_000)
    collector.begin()
    began_ns = now_ns()
    event = {"name": "miss", "timeUnixNano": str(began_ns + epoch_offset_ns())}
    put(collector, "inside", began_ns, now_ns(), events=[event])
    put(collector, "long ago", began_ns - 50_000_000, now_ns())
    ended_ns = now_ns()
    collected = collector.end()
    collector.close()
    inside, miss = collected.spans
    assert (inside.name, inside.level, inside.kind) == ("inside", 1, SpanKind.HOST)
    assert began_ns - 1_000_000 <= inside.start_ns <= ended_ns
    assert (miss.name, miss.kind, miss.duration_ns, miss.parent) == ("miss", SpanKind.MARKER, 0, 0)
    assert inside.attributes is not None
    assert inside.attributes["service.name"] == "shop"
    assert (collected.dropped, collected.notes) == (0, ())


def test_spans_that_come_too_late_are_counted() -> None:
    collector = opened()
    collector.begin()
    began_ns, ended_ns = now_ns(), now_ns()
    assert found(collector.end()) == []
    put(collector, "late", began_ns, ended_ns)
    collector.begin()
    collected = collector.end()
    assert found(collected) == []
    assert collected.notes == ("1 spans arrived after their block was read: flush_s is 0",)


def test_spans_on_their_way_are_waited_for() -> None:
    collector = opened(flush_s=30)
    collector.begin()
    began_ns, waited = now_ns(), threading.Event()

    def late() -> None:
        waited.wait(60)
        put(collector, "late", began_ns, began_ns)

    sender = threading.Thread(target=late)
    sender.start()

    def sleep(_: float) -> None:
        waited.set()
        sender.join()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.agent.collectors.otlp.collector.time.sleep", sleep)
        assert found(collector.end()) == ["late"]


def test_spans_of_no_block_and_refused_requests_are_said() -> None:
    collector = opened()
    collector.begin()
    put(collector, "other", 5, 6)
    post(url_of(collector), b"{")
    notes = collector.end().notes
    assert notes == (
        "spans arrived, but none within a block's time",
        "requests that are not OTLP were refused",
    )


def test_what_another_process_did_for_a_request_lies_in_it() -> None:
    collector = opened()
    with OUTGOING_REQUESTS.request() as nothing:
        assert nothing == {}
    collector.begin()
    with OUTGOING_REQUESTS.request() as headers:
        version, trace_id, span_id, flags = headers["traceparent"].split("-")
        ids = {"traceId": trace_id, "parentSpanId": span_id}
        put(collector, "serve", now_ns(), now_ns(), **ids)
    with OUTGOING_REQUESTS.request():
        pass
    request, serve = collector.end().spans
    assert (version, flags, len(trace_id), len(span_id)) == ("00", "01", 32, 16)
    assert (request.name, serve.name, serve.parent) == ("request", "serve", 0)
    assert request.thread == threading.get_native_id()
    assert request.start_ns <= serve.start_ns
    assert not OUTGOING_REQUESTS.is_open


def test_exporters_are_told_where_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_collectors({"otlp": True})
    collector = opened()
    told = "import os; print(os.environ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'])"
    child = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == url_of(collector) + "/v1/traces"
    assert url_of(opened()) == url_of(collector), "a run's end leaves the receiver to the next"
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://elsewhere:1")
    other = opened()
    other.begin()
    assert other.end().notes == ("exporters are configured to send elsewhere: http://elsewhere:1",)


def test_an_address_may_be_asked_for() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        taken = held.getsockname()[1]
        with pytest.raises(CollectorUnavailable, match="in use"):
            opened(address=f"127.0.0.1:{taken}")
    assert url_of(opened(address=f"127.0.0.1:{taken}")).endswith(f":{taken}")


@pytest.mark.parametrize(
    "options",
    [
        {"address": "0.0.0.0:4318"},
        {"address": "192.0.2.1:4318"},
        {"address": "127.0.0.1:x"},
        {"address": "127.0.0.1:99999"},
        {"address": 5},
        {"flush_s": -1},
        {"flush_s": 1e9},
        {"flush_s": float("nan")},
        {"flush_s": "1"},
        {"flush_s": True},
    ],
)
def test_options_of_no_use_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(CollectorUnavailable, match=next(iter(options))):
        opened(**options)


def test_told_spans_are_kept_as_they_came(receiver: Receiver) -> None:
    one = ExportedSpan("a", "b", "", "n", 1, 2)
    assert receiver.put([one, one]) == 0
    assert receiver.take()[0] == [one, one]


def test_without_its_package_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "find_spec", lambda _: None)
    assert otlp.availability().levels == ()
    assert "pip install 'mlscope[otlp]'" in otlp.availability().reason
    with pytest.raises(CollectorUnavailable, match="opentelemetry-proto is not installed"):
        opened()


POSTING = """
import os, socket, sys
os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as sender:
    sender.sendall(b"POST /v1/traces HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
    print(sender.recv(100))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run another user's program")
def test_another_user_of_the_machine_adds_no_spans(receiver: Receiver) -> None:
    port = str(urlsplit(receiver.url).port)
    command = [sys.executable, "-I", "-c", POSTING, port, "65534"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "200" not in ended.stdout
    hanging_up = POSTING.replace("print(sender.recv(100))", "sender.close()")
    for _ in range(20):
        subprocess.run([*command[:3], hanging_up, *command[4:]], check=True)
    assert receiver.take() == ([], 0, 0)
    assert post(receiver.url, b"{}")[0] == 200


def test_a_sandbox_lets_the_receiver_see_who_sends(tmp_path: Path) -> None:
    reach = reach_of((), tmp_path, ())
    table = Path("/proc/self/net/tcp").resolve().parent
    assert any(table.is_relative_to(folder) for folder in map(Path, reach.readable)), reach.readable
