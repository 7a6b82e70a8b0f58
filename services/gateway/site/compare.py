"""The page that compares two or more evaluations, or lists those to compare."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from mlscope.bus.bus import Bus
from mlscope.client.errors import ClientError
from schemas.analysis import Table
from schemas.request import ListEvaluations
from schemas.status import EvaluationStatus
from services.gateway.bus_requests import compared, evaluations, status_of, tables_of
from services.gateway.charts.figures import figure_of
from services.gateway.pages.comparing.compare import (
    Part,
    compare_view,
    letter_of,
    named,
    named_by_letter,
    query_of,
    sections_of,
)
from services.gateway.pages.evaluations import evaluation_rows
from services.gateway.parameters.query_string import figures_of
from services.gateway.parameters.request_values import bus_of, checked_evaluation
from services.gateway.rendering import rendered
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
    tables = await asyncio.gather(*(_conditions(bus, status) for status in statuses))
    further: dict[str, Any] = {}
    if len(analyzed) > 1:
        letters = {own.evaluation: letter_of(place) for place, own in enumerate(statuses)}
        try:
            further = await _compared(request, analyzed, terms, letters)
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


async def _conditions(bus: Bus, status: EvaluationStatus) -> Table | None:
    if not status.tables:
        return None
    try:
        tables = (await tables_of(bus, status.evaluation, "conditions")).tables
    except ClientError:
        return None
    return next((table for table in tables if table.name == "conditions"), None)


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
    """Return the tables that compare the evaluations, with their charts and shared caveats."""
    query = [("evaluation", status.evaluation) for status in statuses]
    command = figures_of([*query, *query_of_terms(terms)])
    answer = await compared(bus_of(request), command)
    sections, caveats = sections_of(answer, letters, query_of(command))
    tables = {table.name: named(table, letters) for table in answer.tables}
    pictures = request.app.state.pictures
    charted = [named_by_letter(tables[section.name]) for section in sections]
    charts = [await figure_of(pictures, table) for table in charted]
    parts = [Part(*pair) for pair in zip(sections, charts, strict=True)]
    return {"parts": parts, "caveats": caveats, "compared": answer.tables}
