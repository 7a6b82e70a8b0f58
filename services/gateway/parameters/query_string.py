"""Query parameters of an address as commands, and checks of the parameters. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.request import Compare, ListEvaluations, SystemNeed
from services.gateway.table_files import FILES

SYSTEM = tuple(name for name in SystemNeed.model_fields if name != "labels")
"""Fields of `SystemNeed` with parameters of the same names."""

_LISTS = {"agent": "agents"}
_MAPS = {"label": "labels", "system_label": "system.labels"}
_ORDER = ("limit", "offset", "sort", "search", "predictions", "requested_by")
QUERY = (*_ORDER, "model", "state", "framework", *SYSTEM, *_LISTS, *_MAPS)
"""Parameters of a list; `agent`, `label` and `system_label` (both k=v) may be repeated."""
MOST_PARAMETERS = 80
"""Parameters in the query of a list: with `agent` as often as a list may name agents."""


def list_of(query: Iterable[tuple[str, str]]) -> ListEvaluations:
    """Return the command for the list that a query describes; empty values are ignored.

    Raises MalformedMessage, which names the wrong parameter, or says that there are too many.
    """
    query = [(name, value) for name, value in query if value]
    # The page has a link without each of them: a thousand parameters make a million.
    if len(query) > MOST_PARAMETERS:
        expected = f"at most {MOST_PARAMETERS} parameters"
        raise MalformedMessage(field="", found=f"{len(query)} parameters", expected=expected)
    fields: dict[str, Any] = {}
    system: dict[str, Any] = {}
    labels: dict[str, dict[str, str]] = defaultdict(dict)
    for name, value in query:
        if name in _LISTS:
            fields.setdefault(_LISTS[name], []).append(value)
            continue
        if name not in _MAPS:
            (system if name in SYSTEM else fields)[name] = value
            continue
        key, equals, text = value.partition("=")
        if not key or not equals:
            raise MalformedMessage(field=name, found=value[:80], expected="key=value")
        labels[name][key] = text
    system |= {"labels": labels["system_label"]}
    return parse(ListEvaluations, {**fields, "system": system, "labels": labels["label"]})


FIGURES = ("evaluation", "price", "most_latency_ns", "most_cost", "least_accuracy")
"""Parameters of a comparison; `evaluation` and `price` (agent=dollars) may be repeated."""

_PRICE_TEXT = "agent=dollars, e.g. a1=3.06"
_FIGURES_TEXT = f"one of the parameters {', '.join(FIGURES)}"


def figures_of(query: Iterable[tuple[str, str]]) -> Compare:
    """Return the command for the comparison that a query describes. Raises MalformedMessage."""
    fields: dict[str, Any] = {"figures": True}
    evaluations: list[str] = []
    prices: dict[str, float] = {}
    for name, value in query:
        if name == "evaluation":
            evaluations.append(value)
            continue
        if name == "price":
            agent, _, dollars = value.partition("=")
            prices[agent] = _number(name, value, dollars if agent else "", _PRICE_TEXT)
            continue
        if name not in FIGURES:
            raise MalformedMessage(field=name, found=value[:80], expected=_FIGURES_TEXT)
        if value:
            fields[name] = _number(name, value, value, "a number")
    named = dict(zip(("first", "second"), evaluations, strict=False))
    return parse(Compare, {**fields, **named, "others": evaluations[2:], "prices": prices})


def _number(name: str, value: str, digits: str, expected: str) -> float:
    """Return the number that a part of a parameter's value, `digits`, is."""
    try:
        return float(digits)
    except ValueError:
        raise MalformedMessage(field=name, found=value[:80], expected=expected) from None


JSON = "json"


def form_of(suffix: str, query: Iterable[tuple[str, str]], accept: str) -> str:
    """Return the requested format of a table: json, or one of FILES. Raises MalformedMessage.

    The `suffix` of its address counts before the parameter `format` of the `query`, and that
    before the header `accept`.
    """
    parameters = list(query)
    for name, value in parameters:
        if name != "format":
            raise MalformedMessage(field=name, found=value[:80], expected="only format")
    parameter = dict(parameters).get("format", "")
    form = suffix or parameter or ("csv" if "text/csv" in accept else JSON)
    if form != JSON and form not in FILES:
        raise MalformedMessage(field="format", found=form[:80], expected=", ".join((JSON, *FILES)))
    if parameter not in ("", form):
        expected = f"{form}, as in the suffix"
        raise MalformedMessage(field="format", found=parameter[:80], expected=expected)
    return form


def check_is_plain(query: Iterable[tuple[str, str]]) -> None:
    """Raise MalformedMessage if a query has parameters; only `format=json` is accepted."""
    for name, value in query:
        if (name, value) != ("format", "json"):
            expected = "JSON without parameters; single tables are available as files"
            raise MalformedMessage(field=name, found=value[:80], expected=expected)
