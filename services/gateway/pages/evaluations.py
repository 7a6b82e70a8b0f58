"""The page with the list of evaluations. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, get_args

from schemas.status import EvaluationStatus, State
from services.gateway.pages.forms import Choice, Field, SearchForm

_SEARCH_FIELDS: Mapping[str, str] = MappingProxyType(
    {"model": "Model", "framework": "Framework", "agent": "Agent", "label": "Label"}
)
"""What the form asks for; an address may have every name of `services.gateway.query_parameters`."""


@dataclass(frozen=True, slots=True)
class EvaluationsView:
    """The `evaluations` that match, newest first; `is_search` if the query narrows them."""

    evaluations: Sequence[EvaluationStatus]
    form: SearchForm
    is_search: bool
    template: ClassVar[str] = "evaluations.html"
    title: ClassVar[str] = "Evaluations"


def evaluations_view(
    evaluations: Sequence[EvaluationStatus], query: Mapping[str, str]
) -> EvaluationsView:
    """Return the view of `evaluations`, which match `query`, newest first."""
    texts = [Field(name, label, query.get(name, "")) for name, label in _SEARCH_FIELDS.items()]
    states = Choice("state", "State", query.get("state", ""), get_args(State))
    form = SearchForm("/evaluations", texts, [states])
    return EvaluationsView(evaluations, form, is_search=any(query.values()))
