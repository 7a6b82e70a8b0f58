"""Free-form values in messages: what JSON can hold, within a depth. Pure.

msgpack can hold more than JSON: bytes, keys of any type, nesting as deep as its message is long.
Services store these values as JSON, show them and pass them on, so a message that holds other
values is refused where it is read.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

MAX_DEPTH = 32
"""The deepest nesting of lists and maps in a free-form value."""


def check_json(value: Any) -> Any:
    """Return `value` if JSON can hold it within `MAX_DEPTH`.

    Raises ValueError, which names the place of the first value that it cannot hold.
    """
    pending: list[tuple[str, Any, int]] = [("", value, 0)]
    while pending:
        place, item, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(item, Mapping):
            for key, inner in item.items():
                if not isinstance(key, str):
                    raise ValueError(f"expected text as a key{_at(place)}, found {_kind(key)}")
                pending.append((f"{place}.{key}", inner, depth + 1))
        elif isinstance(item, list | tuple):
            pending += [
                (f"{place}.{index}", inner_item, depth + 1) for index, inner_item in enumerate(item)
            ]
        elif not isinstance(item, str | int | float | None):
            raise ValueError(f"expected a JSON value{_at(place)}, found {_kind(item)}")
    return value


def json_object_in(text: str | bytes) -> dict[str, Any]:
    """Return the map in a JSON `text`; an empty one if the text holds no map or is nested too deep.

    For attributes of spans, whose texts come from agents.
    """
    try:
        value = check_json(json.loads(text))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _at(place: str) -> str:
    return f" at {place[1:60]}" if place else ""


def _kind(value: object) -> str:
    return type(value).__name__


JsonObject = Annotated[dict[str, Any], AfterValidator(check_json)]
"""A map of free-form values that JSON can hold."""
