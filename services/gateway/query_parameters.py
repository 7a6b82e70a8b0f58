"""Query parameters of an address as commands, and checks of the parameters. Pure."""

from collections.abc import Iterable
from typing import Any

from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.request import Compare, ListEvaluations, SystemNeed

SYSTEM = tuple(name for name in SystemNeed.model_fields if name != "labels")
"""Fields of `SystemNeed` with parameters of the same names."""

_LISTS = {"agent": "agents"}
_MAPS = {"label": "labels", "system_label": "system.labels"}
QUERY = ("limit", "model", "state", "framework", *SYSTEM, *_LISTS, *_MAPS)
"""Parameters of a list; `agent`, `label` and `system_label` (both k=v) may be repeated."""


def list_of(query: Iterable[tuple[str, str]]) -> ListEvaluations:
    """Return the command for the list that a query describes; empty values are ignored.

    Raises MalformedMessage, which names the wrong parameter.
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
"""Parameters of a comparison; `evaluation` and `price` (agent=dollars) may be repeated."""

_FIGURES_TEXT = f"one of the parameters {', '.join(FIGURES)}"


def figures_of(query: Iterable[tuple[str, str]]) -> Compare:
    """Return the command for the comparison that a query describes. Raises MalformedMessage."""
    fields: dict[str, Any] = {"figures": True}
    evaluations: list[str] = []
    prices: dict[str, float] = {}
    for name, value in query:
        if name == "evaluation":
            evaluations.append(value)
        elif name == "price":
            agent, _, dollars = value.partition("=")
            try:
                prices[agent] = float(dollars if agent else "")
            except ValueError:
                expected = "agent=dollars, e.g. a1=3.06"
                raise MalformedMessage(field=name, found=value[:80], expected=expected) from None
        elif name not in FIGURES:
            raise MalformedMessage(field=name, found=value[:80], expected=_FIGURES_TEXT)
        elif value:
            try:
                fields[name] = float(value)
            except ValueError:
                expected = "a number"
                raise MalformedMessage(field=name, found=value[:80], expected=expected) from None
    named = dict(zip(("first", "second"), evaluations, strict=False))
    return parse(Compare, {**fields, **named, "others": evaluations[2:], "prices": prices})


def check_has_only(name: str, query: Iterable[tuple[str, str]]) -> None:
    """Raise MalformedMessage if a query has another parameter than `name`."""
    for parameter, value in query:
        if parameter != name:
            raise MalformedMessage(field=parameter, found=value[:80], expected=f"only {name}")


def check_is_plain(query: Iterable[tuple[str, str]]) -> None:
    """Raise MalformedMessage if a query has parameters; only `format=json` is accepted."""
    for name, value in query:
        if (name, value) != ("format", "json"):
            expected = "JSON without parameters; single tables are available as files"
            raise MalformedMessage(field=name, found=value[:80], expected=expected)
