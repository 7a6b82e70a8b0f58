"""The query of an address as the constraints of a list. Pure."""

from collections.abc import Iterable
from typing import Any

from schemas.codec import parse
from schemas.errors import MalformedMessage
from schemas.request import Compare, ListEvaluations, SystemNeed

SYSTEM = tuple(name for name in SystemNeed.model_fields if name != "labels")
"""Fields of `SystemNeed` that a query names as they are."""

_LISTS = {"agent": "agents"}
_MAPS = {"label": "labels", "system_label": "system.labels"}
QUERY = ("limit", "model", "state", "framework", *SYSTEM, *_LISTS, *_MAPS)
"""Every name a query may have. `agent`, `label` and `system_label` (both k=v) may come again."""


def list_of(query: Iterable[tuple[str, str]]) -> ListEvaluations:
    """Return the list a query asks for; a name without value says nothing.

    Raises MalformedMessage, which names what is wrong.
    """
    fields: dict[str, Any] = {}
    system: dict[str, Any] = {}
    labels: dict[str, dict[str, str]] = {name: {} for name in _MAPS}
    for name, value in query:
        if not value:
            continue
        if name in _LISTS:
            fields.setdefault(_LISTS[name], []).append(value)
        elif name in _MAPS:
            key, equals, text = value.partition("=")
            if not key or not equals:
                raise MalformedMessage(field=name, found=value[:80], expected="key=value")
            labels[name][key] = text
        elif name in SYSTEM:
            system[name] = value
        else:
            fields[name] = value
    system |= {"labels": labels["system_label"]}
    return parse(ListEvaluations, {**fields, "system": system, "labels": labels["label"]})


FIGURES = ("evaluation", "price", "most_latency_ns", "most_cost", "least_accuracy")
"""Every name a query for figures may have. `evaluation` and `price` (agent=dollars) come again."""

_NAMES = f"one of the parameters {', '.join(FIGURES)}"


def figures_of(query: Iterable[tuple[str, str]]) -> Compare:
    """Return the comparison of figures a query asks for. Raises MalformedMessage."""
    fields: dict[str, Any] = {"figures": True}
    evaluations: list[str] = []
    prices: dict[str, float] = {}
    for name, value in query:
        if name == "evaluation":
            evaluations.append(value)
        elif name == "price":
            agent, dollars = _priced(value)
            prices[agent] = dollars
        elif name not in FIGURES:
            raise MalformedMessage(field=name, found=value[:80], expected=_NAMES)
        elif value:
            fields[name] = _number(name, value)
    named = dict(zip(("first", "second"), evaluations, strict=False))
    return parse(Compare, {**fields, **named, "others": evaluations[2:], "prices": prices})


def _priced(text: str) -> tuple[str, float]:
    agent, _, dollars = text.partition("=")
    try:
        if agent:
            return agent, float(dollars)
    except ValueError:
        pass
    raise MalformedMessage(field="price", found=text[:80], expected="agent=dollars, as a1=3.06")


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise MalformedMessage(field=name, found=text[:80], expected="a number") from error


def check_has_only(known: str, query: Iterable[tuple[str, str]]) -> None:
    """Raise MalformedMessage where a query has a parameter that its place does not know."""
    for name, value in query:
        if name != known:
            raise MalformedMessage(field=name, found=value[:80], expected=f"only {known}")


def check_is_plain(query: Iterable[tuple[str, str]]) -> None:
    """Raise MalformedMessage where a query asks for what its place does not give."""
    for name, value in query:
        if (name, value) != ("format", "json"):
            expected = "JSON, without parameters; one table by name comes as a file"
            raise MalformedMessage(field=name, found=value[:80], expected=expected)
