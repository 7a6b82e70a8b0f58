"""Recording of `nvtx.Domain`, by wrappers around the public methods of domains.

Where no profiler is attached, `nvtx.get_domain` returns one stand-in for all domains, which knows
no name and makes no attributes. Its ranges are recorded without a domain. `named_get_domain`
returns domains that know their names and keep attributes that are made for later use.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from services.agent.collectors.nvtx.recorder import RangeRecorder, range_attributes

_UNNAMED = "?"
"""The stack of domains without a name; '' is the default domain's."""

_PARTS = ("message", "color", "category", "payload")


class EventAttributes:
    """Attributes that a named domain made for later use; the user may set them anew.

    They are what the package takes: `message` is the range's name, `color` and `category` are of
    any type that it accepts, and `payload` is a number or an array.
    """

    def __init__(
        self, message: Any = None, color: Any = None, category: Any = None, payload: Any = None
    ) -> None:
        self.message, self.color, self.category, self.payload = message, color, category, payload


def domain_methods(kind: Any, recorder: RangeRecorder) -> dict[str, Callable[..., Any]]:
    """Return the wrappers of the methods of a class of domains, by name."""
    real_push, real_pop, real_mark = kind.push_range, kind.pop_range, kind.mark
    real_start, real_end = kind.start_range, kind.end_range

    def push_range(domain: Any, attributes: Any = None, **parts: Any) -> Any:
        name, recorded = _event(domain, attributes, parts, "range")
        recorder.push(name, _name_of(domain), recorded)
        return real_push(domain, _package_attributes(attributes), **parts)

    def pop_range(domain: Any) -> Any:
        recorder.pop(_name_of(domain))
        return real_pop(domain)

    def mark(domain: Any, attributes: Any = None, **parts: Any) -> Any:
        recorder.mark(*_event(domain, attributes, parts, "mark"))
        return real_mark(domain, _package_attributes(attributes), **parts)

    def start_range(domain: Any, attributes: Any = None, **parts: Any) -> int:
        name, recorded = _event(domain, attributes, parts, "range")
        number = real_start(domain, _package_attributes(attributes), **parts)
        return recorder.start(name, recorded, number)

    def end_range(domain: Any, range_id: int) -> Any:
        recorder.end(range_id)
        return real_end(domain, range_id)

    wrappers = (push_range, pop_range, mark, start_range, end_range)
    return {wrapper.__name__: wrapper for wrapper in wrappers}


def named_get_domain(domain_class: Any, get_domain: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `get_domain` whose stand-ins know their names and keep attributes.

    `domain_class`: the class of domains that a profiler listens to; they are returned as they are.
    `get_domain`: the package's own function.
    """

    @functools.cache
    def stand_in(name: str) -> Any:
        stand_in_class: Any = type(get_domain())
        domain = _named_class(stand_in_class)()
        domain.name = name
        return domain

    @functools.wraps(get_domain)
    def get_named_domain(name: str | None = None) -> Any:
        domain = get_domain(name)
        return domain if isinstance(domain, domain_class) else stand_in(name or "")

    return get_named_domain


@functools.cache
def _named_class(stand_in_class: Any) -> Any:
    """Return a class of stand-ins with names and attributes; its other methods are inherited."""

    def get_event_attributes(
        _: Any, message: Any = None, color: Any = None, category: Any = None, payload: Any = None
    ) -> EventAttributes:
        return EventAttributes(message, color, category, payload)

    def set_event_attributes(_: Any, attributes: Any, **parts: Any) -> None:
        for name, value in parts.items():
            setattr(attributes, name, value)

    def get_registered_string(_: Any, string: str) -> str:
        return string

    methods = (get_event_attributes, set_event_attributes, get_registered_string)
    return type("NamedDomain", (stand_in_class,), {method.__name__: method for method in methods})


def _package_attributes(attributes: Any) -> Any:
    """Return attributes that the package's methods accept: its own, or None."""
    return None if isinstance(attributes, EventAttributes) else attributes


def _event(
    domain: Any, attributes: Any, parts: Mapping[str, Any], unnamed: str
) -> tuple[str, dict[str, Any]]:
    """Return the name and attributes of an event; `unnamed` is the name without a message."""
    event = {name: getattr(attributes, name, None) for name in _PARTS} | dict(parts)
    message = event.pop("message")
    event["category"] = event["category"] or None
    name = _name_of(domain)
    event["domain"] = None if name == _UNNAMED else name
    return str(getattr(message, "string", message) or unnamed), range_attributes(**event)


def _name_of(domain: Any) -> str:
    return str(getattr(domain, "name", _UNNAMED) or "")
