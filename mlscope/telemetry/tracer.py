"""I/O: the spans of one service and their way to an OTLP/HTTP receiver."""

from collections.abc import Mapping
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mlscope.telemetry.session import BoundedSession

_SENT_WITHIN_S = 5.0
_TRACEPARENT = "traceparent"
_W3C = TraceContextTextMapPropagator()


class Tracer:
    """Begins spans; a thread sends those that ended."""

    def __init__(self, service: str, address: str, attributes: Mapping[str, str]) -> None:
        """Send spans of `service` to the OTLP/HTTP receiver at `address`.

        `attributes` are those of the resource, beside the service's name and version.
        """
        resource = Resource.create(
            {
                "service.name": service,
                "service.namespace": "mlscope",
                "service.version": version("mlscope"),
                **attributes,
            }
        )
        endpoint = f"{address.rstrip('/')}/v1/traces"
        # A requester's span that is not recorded must not turn off those of its evaluation.
        self._provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(
            endpoint=endpoint, timeout=_SENT_WITHIN_S, session=BoundedSession()
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("mlscope")

    def begin(
        self,
        name: str,
        traceparent: str,
        kind: SpanKind = SpanKind.INTERNAL,
        *,
        start_ns: int | None = None,
    ) -> Span:
        """Begin the span `name` of a `kind` below the one that a W3C `traceparent` names.

        One that is empty or malformed names none: the span begins a trace. `start_ns` is an epoch
        time; None means now.
        """
        parent = _W3C.extract({_TRACEPARENT: traceparent})
        return self._tracer.start_span(name, parent, kind, start_time=start_ns)

    def close(self) -> None:
        """Send what ended, within some seconds. Blocking."""
        self._provider.shutdown()


def traceparent_of(span: Span) -> str:
    """Return the W3C traceparent that names a span."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, set_span_in_context(span))
    return carrier.get(_TRACEPARENT, "")
