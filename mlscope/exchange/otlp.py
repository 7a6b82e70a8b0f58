"""OpenTelemetry spans (OTLP as JSON, ExportTraceServiceRequest): one trace per query.

The query is the trace's root. Device work is a child of the span that it ran in, with a link to the
call that launched it. Times are epoch ns, as far as the run's origin is known.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import IO, Any

from mlscope.exchange.traces import DEVICES, Trace, level_name
from schemas.analysis import SpanRow
from schemas.batch import SpanKind

MAX_SPANS_PER_TRACE = 10_000
"""Tracing backends refuse or drop larger traces; the shallowest levels are exported first."""


def write(trace: Trace, file: IO[bytes]) -> None:
    """Write one run; spans that belong to no query are one trace of their own."""
    queries = queries_of(trace.spans)
    spans_per_query: Counter[int] = Counter()
    exported: list[SpanRow] = []
    for span in sorted(trace.spans, key=lambda span: (span.level, span.start_ns)):
        query = queries[span.span]
        spans_per_query[query] += 1
        if spans_per_query[query] <= MAX_SPANS_PER_TRACE and span.kind != SpanKind.SAMPLE:
            exported.append(span)
    run = trace.run
    resource = {
        "service.name": run.model or "mlscope",
        "host.name": run.agent,
        "mlscope.evaluation": trace.evaluation,
        "mlscope.run": run.run,
        "mlscope.framework": run.framework,
        "mlscope.device": run.device,
    }
    scope_spans = {"scope": {"name": "mlscope"}, "spans": _otlp_spans(trace, exported, queries)}
    request = {
        "resourceSpans": [
            {"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope_spans]}
        ]
    }
    file.write(json.dumps(request, separators=(",", ":")).encode())


def queries_of(spans: Sequence[SpanRow]) -> Mapping[int, int]:
    """Return the query of each span: its own, or that of its nearest ancestor with one."""
    by_id = {span.span: span for span in spans}
    queries: dict[int, int] = {}
    for span in spans:
        ancestor, steps = span, 0
        while ancestor.query < 0 and ancestor.parent in by_id and steps < len(by_id):
            ancestor, steps = by_id[ancestor.parent], steps + 1
        queries[span.span] = ancestor.query
    return queries


def _otlp_spans(
    trace: Trace, exported: Sequence[SpanRow], queries: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Return the exported spans as OTLP/JSON, `queries` by span id."""
    span_ids = {span.span for span in exported}
    launches = {
        span.correlation: span
        for span in exported
        if span.kind == SpanKind.LAUNCH and span.correlation >= 0
    }
    otlp_spans = []
    for span in exported:
        start_ns = trace.run.epoch_ns + span.start_ns
        attributes: dict[str, Any] = {
            "mlscope.level": level_name(span),
            "thread.id": span.thread,
            "mlscope.span": span.span,
        }
        if span.attributes:
            attributes["mlscope.attributes"] = span.attributes
        otlp_span: dict[str, Any] = {
            "traceId": _trace_id(trace, queries[span.span]),
            "spanId": _span_id(span.span),
            "name": span.name,
            "kind": 1,
            "startTimeUnixNano": str(max(start_ns, 0)),
            "endTimeUnixNano": str(max(start_ns + span.duration_ns, 0)),
            "attributes": _attributes(attributes),
        }
        if span.parent is not None and span.parent in span_ids:
            otlp_span["parentSpanId"] = _span_id(span.parent)
        launch = launches.get(span.correlation)
        if span.kind in DEVICES and launch is not None:
            link = {"traceId": _trace_id(trace, queries[launch.span])}
            otlp_span["links"] = [link | {"spanId": _span_id(launch.span)}]
        otlp_spans.append(otlp_span)
    return otlp_spans


def _trace_id(trace: Trace, query: int) -> str:
    text = f"{trace.evaluation}\n{trace.run.run}\n{trace.run.attempt}\n{query}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _span_id(span: int) -> str:
    """Return an id of 8 bytes in hex, never all zeros."""
    return f"{(span + 1) & 0x7FFF_FFFF_FFFF_FFFF | 1 << 63:016x}"


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "key": key,
            "value": {"intValue": str(value)}
            if isinstance(value, int)
            else {"stringValue": str(value)},
        }
        for key, value in values.items()
    ]
