"""An example of a predictor with spans of its own: by NVTX, by OpenTelemetry, by mlscope.

It answers a batch with itself. What it exports goes where the environment says when it is opened,
as that of any program instrumented with OpenTelemetry; OTLP is written by hand here, as JSON.
"""

import http.client
import json
import os
import secrets
import time
from urllib.parse import urlsplit

import nvtx

from mlscope.tracing import span
from schemas.level import Level
from services.agent.predictors import Opened, OpenRequest, Predictor, TensorPlace, Tensors


def open_model(request: OpenRequest) -> Predictor:
    """Open nothing, at once."""
    return Instrumented(request)


class Instrumented:
    """Answers a batch with itself, and says what it does meanwhile."""

    def __init__(self, request: OpenRequest) -> None:
        port = request.model.inputs[0]
        place = TensorPlace(port.layer_name, (request.batch_size, *port.shape[1:]), "float32")
        self._traces = urlsplit(os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""))
        self.opened = Opened(
            framework="instrumented",
            framework_version="1.0",
            inputs=(place,),
            outputs=(place,),
            device="cpu",
            provider="",
            precision="float32",
            threads=1,
            options=dict(request.options),
            load_ns=0,
            first_run_ns=0,
            deepest_level=Level.MODEL,
        )

    def predict(self, inputs: Tensors) -> Tensors:
        """Return what came."""
        began_ns = time.time_ns()
        with span("own"), nvtx.annotate("look up", domain="cache", payload=7):
            nvtx.mark("hit", domain="cache")
            found: Tensors = decided(inputs)
        if self._traces.netloc:
            export(self._traces.netloc, began_ns)
        return found

    def close(self) -> None:
        """Hold nothing."""


@nvtx.annotate("decide")  # type: ignore[untyped-decorator]
def decided(inputs: Tensors) -> Tensors:
    """Return what came; a function that NVTX decorates."""
    return inputs


def export(place: str, began_ns: int) -> None:
    """Export a span and one within it, whose event is a marker."""
    trace, outer, inner = secrets.token_hex(16), secrets.token_hex(8), secrets.token_hex(8)
    ended_ns = time.time_ns()
    event = {"name": "sent", "timeUnixNano": str(began_ns)}
    times = {"traceId": trace, "startTimeUnixNano": str(began_ns), "endTimeUnixNano": str(ended_ns)}
    spans = [
        {**times, "spanId": inner, "parentSpanId": outer, "name": "pick", "events": [event]},
        {**times, "spanId": outer, "name": "serve"},
    ]
    service = {"key": "service.name", "value": {"stringValue": "shop"}}
    resource = {"resource": {"attributes": [service]}, "scopeSpans": [{"spans": spans}]}
    peer = http.client.HTTPConnection(place, timeout=60)
    body = json.dumps({"resourceSpans": [resource]})
    peer.request("POST", "/v1/traces", body, {"Content-Type": "application/json"})
    assert peer.getresponse().status == http.client.OK
    peer.close()
