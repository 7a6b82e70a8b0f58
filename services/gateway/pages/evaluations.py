"""The list of evaluations."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import get_args

from schemas.status import EvaluationStatus, State
from services.gateway.pages.markup import Markup, element
from services.gateway.pages.plain import page, search_form

_SOUGHT: Mapping[str, str] = MappingProxyType(
    {"model": "Model", "framework": "Framework", "agent": "Agent", "label": "Label"}
)
"""What the form asks for; an address may have every name of `services.gateway.constraints`."""


def evaluations_page(found: Sequence[EvaluationStatus], asked: Mapping[str, str]) -> str:
    """Return the newest evaluations that fit what was asked (a query), newest first."""
    parts: list[Markup] = [element("h1", "Evaluations"), _form(asked)]
    if found:
        heads = ("Evaluation", "Model", "Framework", "State", "Requested", "Agents")
        head = element("tr", *(element("th", name) for name in heads))
        rows = element("tbody", *(_row(each) for each in found))
        table = element("table", element("thead", head), rows)
        parts.append(element("div", table, class_="wide"))
    elif any(asked.values()):
        every = element("a", "every evaluation", href="/evaluations")
        parts.append(element("p", "None that fits; ", every))
    else:
        hint = element("code", "mlscope run efficientnet-lite0")
        parts.append(element("p", "None yet: ", hint))
    return page("Evaluations", *parts)


def _form(asked: Mapping[str, str]) -> Markup:
    texts = {name: (label, asked.get(name, "")) for name, label in _SOUGHT.items()}
    return search_form(
        "/evaluations", texts, {"state": ("State", asked.get("state", ""), get_args(State))}
    )


def _row(status: EvaluationStatus) -> Markup:
    link = element("a", status.evaluation, href=f"/evaluations/{status.evaluation}")
    labels = (f"{name}={value} " for name, value in status.labels.items())
    return element(
        "tr",
        element("td", link, element("small", *labels) if status.labels else ""),
        element("td", status.model),
        element("td", status.framework),
        element("td", state_of(status.state)),
        element("td", when(status.requested_ns)),
        element("td", ", ".join(status.agents)),
    )


def state_of(state: str) -> Markup:
    """Return a state as a mark: its word, with a colour beside."""
    return element("span", state, class_=f"state {state}")


def when(epoch_ns: int) -> str:
    """Return a time as UTC to the second, '' for none."""
    if not epoch_ns:
        return ""
    return f"{datetime.fromtimestamp(epoch_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"
