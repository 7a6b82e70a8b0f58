"""OpenTelemetry's spans (OTLP as JSON, ExportTraceServiceRequest): a trace a query.

The query is the trace's root; device work is a child where it was launched, with a link to the
call that launched it. Stamps are epoch ns, as far as the run's origin is known.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import IO, Any

from mlscope.exchange.traces import DEVICES, Trace, level_name
from schemas.analysis import SpanRow
from schemas.batch import SpanKind

MOST_IN_A_TRACE = 10_000
"""Spans of one query; tracing backends refuse or drop larger traces. Shallow levels come first."""


def write(trace: Trace, file: IO[bytes]) -> None:
    """Write one run; spans that belong to no query are one trace of their own."""
    queries = _queries(trace.spans)
    kept = _kept(trace.spans, queries)
    launches = {
        span.correlation: span
        for span in kept
        if span.kind == SpanKind.LAUNCH and span.correlation >= 0
    }
    known = {span.span for span in kept}
    spans = [_span(trace, span, queries, launches, known) for span in kept]
    told = {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(_resource(trace))},
                "scopeSpans": [{"scope": {"name": "mlscope"}, "spans": spans}],
            }
        ]
    }
    file.write(json.dumps(told, separators=(",", ":")).encode())


def _queries(spans: Sequence[SpanRow]) -> Mapping[int, int]:
    """Return the query of each span: its own, else that of the nearest span around it."""
    by_id = {span.span: span for span in spans}
    found: dict[int, int] = {}
    for span in spans:
        at, steps = span, 0
        while at.query < 0 and at.parent in by_id and steps < len(by_id):
            at, steps = by_id[at.parent], steps + 1
        found[span.span] = at.query
    return found


def _kept(spans: Sequence[SpanRow], queries: Mapping[int, int]) -> list[SpanRow]:
    taken: dict[int, int] = {}
    kept = []
    for span in sorted(spans, key=lambda each: (each.level, each.start_ns)):
        query = queries[span.span]
        taken[query] = taken.get(query, 0) + 1
        if taken[query] <= MOST_IN_A_TRACE and span.kind != SpanKind.SAMPLE:
            kept.append(span)
    return kept


def _resource(trace: Trace) -> dict[str, Any]:
    run = trace.run
    return {
        "service.name": run.model or "mlscope",
        "host.name": run.agent,
        "mlscope.evaluation": trace.evaluation,
        "mlscope.run": run.run,
        "mlscope.framework": run.framework,
        "mlscope.device": run.device,
    }


def _span(
    trace: Trace,
    span: SpanRow,
    queries: Mapping[int, int],
    launches: Mapping[int, SpanRow],
    known: set[int],
) -> dict[str, Any]:
    start = trace.run.epoch_ns + span.start_ns
    told: dict[str, Any] = {
        "traceId": _trace_id(trace, queries[span.span]),
        "spanId": _span_id(span.span),
        "name": span.name,
        "kind": 1,
        "startTimeUnixNano": str(max(start, 0)),
        "endTimeUnixNano": str(max(start + span.duration_ns, 0)),
        "attributes": _attributes(
            {"mlscope.level": level_name(span), "thread.id": span.thread, "mlscope.span": span.span}
            | ({"mlscope.attributes": span.attributes} if span.attributes else {})
        ),
    }
    if span.parent in known and span.parent is not None:
        told["parentSpanId"] = _span_id(span.parent)
    launch = launches.get(span.correlation)
    if span.kind in DEVICES and launch is not None:
        link = {"traceId": _trace_id(trace, queries[launch.span])}
        told["links"] = [link | {"spanId": _span_id(launch.span)}]
    return told


def _trace_id(trace: Trace, query: int) -> str:
    text = f"{trace.evaluation}\n{trace.run.run}\n{trace.run.attempt}\n{query}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _span_id(span: int) -> str:
    """Return an id of 8 bytes, never all zero."""
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
