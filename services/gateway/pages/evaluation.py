"""The page of one evaluation: state, request, runs, tables."""

import json
from collections.abc import Sequence

from mlscope.client.story import ENDED
from schemas.analysis import Tables
from schemas.request import Evaluate
from schemas.status import EvaluationStatus, RunStatus
from services.gateway.pages.evaluations import state_of, when
from services.gateway.pages.markup import Markup, element
from services.gateway.pages.plain import page, pairs
from services.gateway.pages.tables import sections_of

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
            *sections_of(tables),
            id="evaluation",
            data_evaluation=status.evaluation,
            data_live="yes" if is_live else "no",
        ),
        script=True,
    )


def _facts_of(status: EvaluationStatus) -> Markup:
    refusals = [element("li", f"{each.agent}: {each.reason}") for each in status.refusals]
    state = element("span", state_of(status.state), id="state")
    return pairs(
        ("State", state),
        ("Cause", element("span", status.cause, id="cause")),
        ("Requested", when(status.requested_ns)),
        ("Framework", element("span", _framework(status), id="framework")),
        ("Labels", ", ".join(f"{name}={value}" for name, value in status.labels.items())),
        ("Agents", element("span", ", ".join(status.agents), id="agents")),
        ("Not on", element("ul", *refusals) if refusals else ""),
        ("Evaluation", element("code", status.evaluation)),
    )


def _framework(status: EvaluationStatus) -> str:
    return f"{status.framework} on {status.device}" if status.framework else ""


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
