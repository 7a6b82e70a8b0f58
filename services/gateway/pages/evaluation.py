"""The page of one evaluation: state, request, runs, tables."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from mlscope.client.brief import caveat_lines
from mlscope.client.quantities import shown, unit_of
from mlscope.client.story import ENDED
from schemas.analysis import Column, Table, Tables
from schemas.request import Evaluate
from schemas.status import EvaluationStatus, RunStatus
from services.gateway.pages.evaluations import state_of, when
from services.gateway.pages.markup import Markup, element, text_of
from services.gateway.pages.plain import page, pairs

_LONG = 60
_FILES = (("CSV", ".csv"), ("JSON", ""), ("Parquet", ".parquet"), ("Arrow", ".arrow"))
_RUN_HEADS = (
    "Run",
    "Scenario",
    "Batch",
    "Level",
    "Agent",
    "State",
    "Queries",
    "Failed",
    "Spans",
    "p50 so far",
    "p99 so far",
    "Notes",
)


def evaluation_page(status: EvaluationStatus, tables: Tables, note: str = "") -> str:
    """Return the page; while the evaluation runs its script keeps it up to date."""
    is_live = status.state not in ENDED
    return page(
        f"{status.model} {status.evaluation}",
        element(
            "article",
            element("h1", status.model or status.evaluation),
            _facts_of(status),
            _progress(status, is_live),
            element("h2", "Runs"),
            _runs(status.runs),
            _request(status.request) if status.request else "",
            element("p", note, class_="note") if note else "",
            *(
                _table(status.evaluation, table, tables.total_rows.get(table.name, 0))
                for table in _results_first(tables.tables)
            ),
            id="evaluation",
            data_evaluation=status.evaluation,
            data_live="yes" if is_live else "no",
        ),
        script=True,
    )


def _results_first(tables: Sequence[Table]) -> list[Table]:
    """Return the tables with the conditions behind the results."""
    return sorted(tables, key=lambda table: table.name == "conditions")


def _facts_of(status: EvaluationStatus) -> Markup:
    refusals = [element("li", f"{each.agent}: {each.reason}") for each in status.refusals]
    state = element("span", state_of(status.state), id="state")
    return pairs(
        ("State", state),
        ("Cause", element("span", status.cause, id="cause")),
        ("Requested", when(status.requested_ns)),
        ("Agents", element("span", ", ".join(status.agents), id="agents")),
        ("Not on", element("ul", *refusals) if refusals else ""),
        ("Evaluation", element("code", status.evaluation)),
    )


def _progress(status: EvaluationStatus, is_live: bool) -> Markup:
    text = "waiting for news" if is_live else ""
    return element(
        "p",
        element("span", text, id="progress"),
        " ",
        element("span", "", id="gap"),
        role="status",
        hidden=not is_live,
        data_runs=str(len(status.runs)),
    )


def _runs(runs: Sequence[RunStatus]) -> Markup:
    head = element("tr", *(element("th", name) for name in _RUN_HEADS))
    rows = [_run(run) for run in runs]
    table = element("table", element("thead", head), element("tbody", *rows, id="runs"))
    return element("div", table, class_="wide runs")


def _run(run: RunStatus) -> Markup:
    cells = (
        run.run,
        run.scenario,
        str(run.batch_size),
        run.level.name.lower(),
        run.agent,
        state_of(run.state),
        str(run.answered),
        str(run.failed_queries),
        str(run.spans),
        "",
        "",
        "; ".join(note for note in (run.cause, run.level_note, *run.caveats) if note),
    )
    return element(
        "tr",
        *(element("td", cell) for cell in cells),
        data_run=run.run,
        data_attempt=str(run.attempt),
    )


def _request(request: Evaluate) -> Markup:
    fields = request.model_dump(mode="json", exclude_defaults=True)
    body = json.dumps(fields, indent=2)
    return element("details", element("summary", "Request"), element("pre", body))


def _table(evaluation: str, table: Table, total_rows: int) -> Markup:
    address = f"/api/evaluations/{evaluation}/tables/{table.name}"
    links = [(element("a", name, href=f"{address}{end}"), " ") for name, end in _FILES]
    columns = _shown_columns(table.columns)
    heads = element("tr", *(_head(column) for column in columns))
    rows = element("tbody", *(element("tr", *_cells(table, columns, row)) for row in table.rows))
    rest = f"the first {len(table.rows)} of {total_rows} rows; the files hold all"
    return element(
        "section",
        element("h2", table.title or table.name),
        element("p", table.verdict, class_="verdict") if table.verdict else "",
        element("div", element("table", element("thead", heads), rows), class_="wide"),
        *(element("p", caveat, class_="note") for caveat in caveat_lines(table.caveats)),
        element("p", rest, class_="note") if total_rows > len(table.rows) else "",
        element("p", *(text_of(*link) for link in links)),
        data_table=table.name,
    )


def _shown_columns(columns: Sequence[Column]) -> list[Column]:
    """Return all columns but an estimate's interval, which stands under the estimate."""
    names = {column.name for column in columns}
    return [c for c in columns if not (_is_bound(c.name) and c.name.rpartition("_")[0] in names)]


def _is_bound(name: str) -> bool:
    return name.endswith(("_low", "_high"))


def _head(column: Column) -> Markup:
    side = "number" if column.type in ("int", "float") else None
    title = column.description or None
    return element("th", column.name.replace("_", " "), title=title, class_=side)


def _cells(table: Table, columns: Sequence[Column], row: Sequence[Any]) -> Iterator[Markup]:
    values = {column.name: value for column, value in zip(table.columns, row, strict=False)}
    for column in columns:
        value, unit = values.get(column.name), unit_of(column)
        low, high = values.get(f"{column.name}_low"), values.get(f"{column.name}_high")
        bounds = "" if low is None or high is None else f"{shown(low, unit)} … {shown(high, unit)}"
        text = shown(value, unit)
        yield element(
            "td",
            text,
            element("small", bounds) if bounds else "",
            class_=_cell_class(column, text),
        )


def _cell_class(column: Column, text: str) -> str | None:
    if column.type in ("int", "float"):
        return "number"
    return "long" if len(text) > _LONG else None
