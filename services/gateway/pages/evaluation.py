"""The page of one evaluation: state, request, runs, tables. Pure."""

import json

from mlscope.evaluation.fold import ENDED
from schemas.analysis import Tables
from schemas.status import EvaluationStatus, RunStatus
from services.gateway.pages.evaluations import state_of, time_text
from services.gateway.pages.frame import page, pairs
from services.gateway.pages.markup import Markup, element
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
    """Return the page of an evaluation; its script keeps it up to date during the evaluation.

    `status`: its state; `tables`: its results; `note`: why tables are missing, if they are.
    """
    is_live = status.state not in ENDED
    progress = element(
        "p",
        element("span", "waiting for updates" if is_live else "", id="progress"),
        " ",
        element("span", "", id="gap"),
        role="status",
        hidden=not is_live,
        data_runs=str(len(status.runs)),
    )
    head = element("tr", *(element("th", name) for name in _RUN_HEADS))
    rows = element("tbody", *(_run_row(run) for run in status.runs), id="runs")
    runs = element("div", element("table", element("thead", head), rows), class_="wide runs")
    request: Markup | str = ""
    if status.request:
        fields = status.request.model_dump(mode="json", exclude_defaults=True)
        body = element("pre", json.dumps(fields, indent=2))
        request = element("details", element("summary", "Request"), body)
    return page(
        f"{status.model} {status.evaluation}",
        element(
            "article",
            element("h1", status.model or status.evaluation),
            _properties(status),
            progress,
            element("h2", "Runs"),
            runs,
            request,
            element("p", note, class_="note") if note else "",
            *sections_of(tables),
            id="evaluation",
            data_evaluation=status.evaluation,
            data_live="yes" if is_live else "no",
        ),
        script=True,
    )


def _properties(status: EvaluationStatus) -> Markup:
    refusals = [element("li", f"{refusal.agent}: {refusal.reason}") for refusal in status.refusals]
    state = element("span", state_of(status.state), id="state")
    framework = f"{status.framework} on {status.device}" if status.framework else ""
    return pairs(
        ("State", state),
        ("Cause", element("span", status.cause, id="cause")),
        ("Requested", time_text(status.requested_ns)),
        ("Framework", element("span", framework, id="framework")),
        ("Labels", ", ".join(f"{name}={value}" for name, value in status.labels.items())),
        ("Agents", element("span", ", ".join(status.agents), id="agents")),
        ("Unsuitable agents", element("ul", *refusals) if refusals else ""),
        ("Evaluation", element("code", status.evaluation)),
    )


def _run_row(run: RunStatus) -> Markup:
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
