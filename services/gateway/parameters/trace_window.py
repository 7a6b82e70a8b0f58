"""The parameters of a window of a trace in an address. Pure."""

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from schemas.encoding.codec import parse
from schemas.encoding.errors import MalformedMessage
from schemas.trace import SPAN_COLUMNS, ShowWindow

WINDOW: Mapping[str, str] = MappingProxyType(
    {
        "t0": "begin of the window, ns from the run's origin",
        "t1": "end of the window",
        "lane": "only this lane; may be repeated, or several separated by commas",
        "min_ns": "spans shorter than this become tiles; 0: only where `limit` demands it",
        "limit": "most rows, at most 2,000,000; as JSON 100,000 unless set",
        "columns": f"some of {', '.join(SPAN_COLUMNS)}, separated by commas",
        "format": "arrow (a stream, uncompressed) or json (a list for each column)",
    }
)
"""Parameters of a window, with what each means."""

_NUMBERS = {"t0": "from_ns", "t1": "to_ns", "min_ns": "min_ns", "limit": "limit"}
_FORMS = ("arrow", "json")
_WAITS = ("yes", "no")
_JSON_ROWS = 100_000
_MOST_NS = 2**62


def window_request(evaluation: str, run: str, query: Iterable[tuple[str, str]]) -> ShowWindow:
    """Return the command for the window of a `run` of `evaluation` that a `query` describes.

    As JSON a window has at most 100,000 rows unless `limit` says otherwise. Raises
    MalformedMessage, which names the wrong parameter.
    """
    parameters = list(query)
    fields: dict[str, Any] = {"evaluation": evaluation, "run": run}
    if is_json_form(parameters):
        fields["limit"] = _JSON_ROWS
    lanes: list[int] = []
    for name, value in parameters:
        if name not in WINDOW:
            raise MalformedMessage(field=name, found=value[:80], expected=", ".join(WINDOW))
        if name == "lane":
            lanes += [_number(name, part) for part in value.split(",")]
        elif name in _NUMBERS:
            fields[_NUMBERS[name]] = _number(name, value)
        elif name == "columns":
            fields[name] = tuple(value.split(","))
    unknown = [column for column in fields.get("columns", ()) if column not in SPAN_COLUMNS]
    if unknown:
        expected = ", ".join(SPAN_COLUMNS)
        raise MalformedMessage(field="columns", found=unknown[0][:80], expected=expected)
    try:
        return parse(ShowWindow, {**fields, "lanes": tuple(lanes)})
    except MalformedMessage as error:
        names = {field: name for name, field in _NUMBERS.items()} | {"lanes": "lane"}
        field = names.get(error.field.partition(".")[0], error.field)
        raise MalformedMessage(field=field, found=error.found, expected=error.expected) from error


def is_json_form(query: Iterable[tuple[str, str]]) -> bool:
    """Tell whether a query asks for JSON. Raises MalformedMessage for an unknown format."""
    form = dict(query).get("format", "arrow")
    if form not in _FORMS:
        raise MalformedMessage(field="format", found=form[:80], expected=", ".join(_FORMS))
    return form == "json"


def waits_of(query: Iterable[tuple[str, str]]) -> bool:
    """Tell whether a query for a run's lanes waits until they are prepared: not with `waits=no`.

    Raises MalformedMessage.
    """
    waits = True
    for name, value in query:
        if name != "waits":
            raise MalformedMessage(field=name, found=value[:80], expected="waits")
        if value not in _WAITS:
            raise MalformedMessage(field=name, found=value[:80], expected=" or ".join(_WAITS))
        waits = value == "yes"
    return waits


def _number(name: str, text: str) -> int:
    """Return a number of nanoseconds, or another one; fractions are cut."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise MalformedMessage(field=name, found=text[:80], expected="a number")
    return int(min(max(number, -_MOST_NS), _MOST_NS))
