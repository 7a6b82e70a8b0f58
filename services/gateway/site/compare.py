"""The page that compares two or more evaluations, or lists those to compare."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from mlscope.client.errors import ClientError
from schemas.request import ListEvaluations
from schemas.status import EvaluationStatus
from services.gateway.bus_requests import compared, condition_table, evaluations, status_of
from services.gateway.pages.comparing.compare import (
    compare_view,
    letters_of,
    query_of,
    sections_of,
)
from services.gateway.pages.evaluations import evaluation_rows
from services.gateway.parameters.query_string import figures_of
from services.gateway.parameters.request_values import bus_of, checked_evaluation
from services.gateway.rendering import rendered
from services.gateway.reports.comparison import parts_of
from services.gateway.responses import refused_by

_LISTED = 100
_TERMS = ("latency_ms", "cost", "accuracy")


async def compare(request: Request) -> Response:
    """GET /compare?runs=ID,ID: what differs in conditions, ratios, layers, kernels, costs.

    The first is the base. `price.AGENT` is dollars an hour; `latency_ms`, `cost` and `accuracy`
    are targets. With fewer than two, or `pick`, it lists evaluations to choose from.
    """
    bus = bus_of(request)
    terms = _terms(request)
    statuses = await asyncio.gather(*(status_of(bus, evaluation) for evaluation in _ids(request)))
    if len(statuses) < 2 or request.query_params.get("pick"):
        answer = await evaluations(bus, ListEvaluations(limit=_LISTED))
        choices = evaluation_rows(answer.evaluations)
        return rendered(request, compare_view(statuses, terms, choices=choices))
    analyzed = [status for status in statuses if status.tables]
    unfinished = [status.evaluation for status in statuses if not status.tables]
    note = (
        f"Not analyzed yet: {', '.join(unfinished)}. Come back when they are." if unfinished else ""
    )
    tables = await asyncio.gather(*(condition_table(bus, status) for status in statuses))
    further: dict[str, Any] = {}
    if len(analyzed) > 1:
        try:
            further = await _compared(request, analyzed, terms, letters_of(statuses))
        except ClientError as error:
            note = refused_by(error).message
    return rendered(request, compare_view(statuses, terms, tables=tables, note=note, **further))


def _ids(request: Request) -> list[str]:
    """Return the evaluations that a query names, each once, in its order."""
    texts = [
        text.strip()
        for name, value in request.query_params.multi_items()
        if name in ("runs", "evaluation")
        for text in value.split(",")
    ]
    return [checked_evaluation(text) for text in dict.fromkeys(filter(None, texts))]


def _terms(request: Request) -> dict[str, str]:
    """Return prices and targets as they were typed."""
    return {
        name: value.strip()
        for name, value in request.query_params.items()
        if (name in _TERMS or name.startswith("price.")) and value.strip()
    }


def query_of_terms(terms: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the `terms` of the page, as typed, as parameters of `/api/compare`."""
    names = {"cost": "most_cost", "accuracy": "least_accuracy"}
    for name, value in terms.items():
        if name.startswith("price."):
            yield "price", f"{name.removeprefix('price.')}={value}"
        elif name == "latency_ms":
            yield "most_latency_ns", f"{value}e6"
        elif name in names:
            yield names[name], value


async def _compared(
    request: Request,
    statuses: Sequence[EvaluationStatus],
    terms: Mapping[str, str],
    letters: Mapping[str, str],
) -> dict[str, Any]:
    """Return the view's fields about the tables that compare the evaluations."""
    query = [("evaluation", status.evaluation) for status in statuses]
    command = figures_of([*query, *query_of_terms(terms)])
    answer = await compared(bus_of(request), command)
    sections, caveats = sections_of(answer, letters, query=query_of(command))
    return {
        "parts": await parts_of(answer, sections, letters, request.app.state.pictures),
        "caveats": caveats,
        "compared": answer.tables,
        "report": f"/api/compare/report?{query_of(command)}",
    }
