"""REST for downloads: a run's spans in formats of other tools, facts, reference logs, answers."""

import asyncio
import json
import tempfile
from typing import IO

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mlscope.client import AsyncClient
from mlscope.client.reference import reference_log_of
from mlscope.client.tracing import MOST_SPANS, flow_of, trace_of
from mlscope.exchange.formats import SPAN_FORMATS, write_spans
from mlscope.exchange.traces import Trace
from mlscope.reproducing.logs import NotMeasured, file_text
from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.request import Refused, ShowPredictions
from services.gateway.bus_requests import predictions_of
from services.gateway.parameters.query_string import check_is_plain
from services.gateway.parameters.request_values import bus_of, evaluation_of, run_of, turn_of
from services.gateway.responses import as_json, refusal

_MEMORY_BYTES = 8 << 20
_CHUNK_BYTES = 256 << 10
PREDICTIONS = ("run", "offset", "limit")
"""Parameters of a list of predictions."""


async def spans_as(request: Request) -> Response:
    """GET /api/evaluations/{id}/runs/{run}/exports/{format}: a run's spans as a file.

    A header counts the spans of a run that are beyond the first million and not in the file.
    """
    check_is_plain(request.query_params.multi_items())
    form = str(request.path_params["format"])
    if form not in SPAN_FORMATS:
        expected = ", ".join(SPAN_FORMATS)
        raise MalformedMessage(field="format", found=form[:80], expected=expected)
    evaluation, run = evaluation_of(request), run_of(request)
    async with turn_of(request):
        trace = await trace_of(bus_of(request), evaluation, run, MOST_SPANS)
        file = await asyncio.to_thread(_written, trace, form)
    named = SPAN_FORMATS[form]
    headers = _download(f"{trace.evaluation}-{trace.run.run}.{named.suffix}")
    headers["Mlscope-Left-Out"] = str(max(trace.run.spans - len(trace.spans), 0))
    chunks = iter(lambda: file.read(_CHUNK_BYTES), b"")
    return StreamingResponse(
        chunks, 200, headers, named.media_type, background=BackgroundTask(file.close)
    )


async def facts(request: Request) -> Response:
    """GET /api/evaluations/{id}/exports/flow: its facts in order, one JSON object a line."""
    check_is_plain(request.query_params.multi_items())
    evaluation = evaluation_of(request)
    lines = [json.dumps(fact) + "\n" for fact in await flow_of(bus_of(request), evaluation)]
    headers = _download(f"{evaluation}.flow.jsonl")
    return Response("".join(lines), 200, headers, media_type="application/x-ndjson")


async def reference_log(request: Request) -> Response:
    """GET /api/evaluations/{id}/exports/log: the reference log, which `reproduce` repeats."""
    check_is_plain(request.query_params.multi_items())
    evaluation = evaluation_of(request)
    try:
        log = await reference_log_of(AsyncClient(bus=bus_of(request)), evaluation)
    except NotMeasured as error:
        refused = Refused(error="conflict", message=str(error), field="evaluation")
        return refusal(refused)
    headers = _download(f"{evaluation}.log.yml")
    return Response(file_text(log), 200, headers, media_type="application/yaml")


async def predictions(request: Request) -> Response:
    """GET /api/evaluations/{id}/predictions: the model's answers with the ground truth."""
    fields: dict[str, object] = {"evaluation": evaluation_of(request)}
    for name, value in request.query_params.multi_items():
        if name not in PREDICTIONS:
            expected = ", ".join(PREDICTIONS)
            raise MalformedMessage(field=name, found=value[:80], expected=expected)
        fields[name] = value
    answer = await predictions_of(bus_of(request), parse(ShowPredictions, fields))
    return as_json(answer.model_dump(mode="json"))


def _download(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _written(trace: Trace, form: str) -> IO[bytes]:
    """Return a temporary file, on disk where it is large, with a trace in a format."""
    file = tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115 (closed after it is sent)
    write_spans(trace, form, file)
    file.seek(0)
    return file
