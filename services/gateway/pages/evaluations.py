"""The page with the list of evaluations. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import get_args

from schemas.status import EvaluationStatus, State
from services.gateway.pages.frame import page, search_form
from services.gateway.pages.markup import Markup, element

_SEARCH_FIELDS: Mapping[str, str] = MappingProxyType(
    {"model": "Model", "framework": "Framework", "agent": "Agent", "label": "Label"}
)
"""What the form asks for; an address may have every name of `services.gateway.query_parameters`."""


def evaluations_page(evaluations: Sequence[EvaluationStatus], query: Mapping[str, str]) -> str:
    """Return the page of `evaluations`, which match `query`, newest first."""
    texts = {name: (label, query.get(name, "")) for name, label in _SEARCH_FIELDS.items()}
    states = {"state": ("State", query.get("state", ""), get_args(State))}
    parts = [element("h1", "Evaluations"), search_form("/evaluations", texts, states)]
    if evaluations:
        heads = ("Evaluation", "Model", "Framework", "State", "Requested", "Agents")
        head = element("tr", *(element("th", name) for name in heads))
        rows = element("tbody", *(_row(status) for status in evaluations))
        table = element("table", element("thead", head), rows)
        parts.append(element("div", table, class_="wide"))
    elif any(query.values()):
        link = element("a", "Show all evaluations", href="/evaluations")
        parts.append(element("p", "No evaluation matches. ", link))
    else:
        command = element("code", "mlscope run efficientnet-lite0")
        parts.append(element("p", "There are no evaluations yet. Start one: ", command))
    return page("Evaluations", *parts)


def _row(status: EvaluationStatus) -> Markup:
    link = element("a", status.evaluation, href=f"/evaluations/{status.evaluation}")
    labels = (f"{name}={value} " for name, value in status.labels.items())
    return element(
        "tr",
        element("td", link, element("small", *labels) if status.labels else ""),
        element("td", status.model),
        element("td", status.framework),
        element("td", state_of(status.state)),
        element("td", time_text(status.requested_ns)),
        element("td", ", ".join(status.agents)),
    )


def state_of(state: str) -> Markup:
    """Return a state as text with a colour."""
    return element("span", state, class_=f"state {state}")


def time_text(epoch_ns: int) -> str:
    """Return a time as UTC to the second, '' for 0."""
    if not epoch_ns:
        return ""
    return f"{datetime.fromtimestamp(epoch_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"
