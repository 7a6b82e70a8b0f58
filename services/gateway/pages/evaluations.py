"""The list of evaluations."""

from collections.abc import Sequence
from datetime import UTC, datetime

from schemas.status import EvaluationStatus
from services.gateway.pages.markup import Markup, element
from services.gateway.pages.plain import page


def evaluations_page(found: Sequence[EvaluationStatus]) -> str:
    """Return the newest evaluations, newest first."""
    if not found:
        hint = element("code", "mlscope run efficientnet-lite0")
        return page("Evaluations", element("h1", "Evaluations"), element("p", "None yet: ", hint))
    names = ("Evaluation", "Model", "State", "Requested", "Agents")
    head = element("tr", *(element("th", name) for name in names))
    table = element(
        "table", element("thead", head), element("tbody", *(_row(each) for each in found))
    )
    return page("Evaluations", element("h1", "Evaluations"), table)


def _row(status: EvaluationStatus) -> Markup:
    link = element("a", status.evaluation, href=f"/evaluations/{status.evaluation}")
    return element(
        "tr",
        element("td", link),
        element("td", status.model),
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
