"""Listening to `nvtx.Domain`: what its own methods say, whether a profiler is attached or not.

Without one all domains are the package's one dummy, which keeps neither its name nor attributes
that are made for later. While a block runs its methods are heard, with what they are called with;
domains that are got after `listen_to_names` know their names and keep what they are told.
"""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from services.agent.collectors.nvtx_ears import Ears, replaced, said_of

_LIBRARY = "nvtx._lib.lib"
_KINDS = ("Domain", "DummyDomain")
_FORGOTTEN = "?"
"""The stack of domains whose names are forgotten: beside the default domain's, which is ''."""
_SAID = ("message", "color", "category", "payload")


@contextlib.contextmanager
def listening_to_domains(ears: Ears) -> Iterator[None]:
    """Hear the methods of domains, where the package is loaded and has them."""
    library = sys.modules.get(_LIBRARY)
    kinds = [getattr(library, name, None) for name in _KINDS]
    with contextlib.ExitStack() as undo:
        for kind in filter(None, kinds):
            for name, heard in _methods(kind, ears).items():
                undo.enter_context(replaced(kind, name, heard))
        if all(kinds):
            for name, kept in _keeping(library).items():
                undo.enter_context(replaced(kinds[1], name, kept))
        yield


def listen_to_names() -> None:
    """Have domains that are got from now on know their names, and keep what is made for later."""
    import nvtx

    real, library = getattr(nvtx, "get_domain", None), sys.modules.get(_LIBRARY)
    dummy = getattr(library, _KINDS[1], None)
    if real is None or dummy is None or hasattr(real, "keeps_names"):
        return
    attended = type("AttendedDomain", (dummy,), _keeping(library))

    @functools.wraps(real)
    @functools.cache
    def get_domain(name: str | None = None) -> Any:
        found = real(name)
        if type(found) is not dummy:
            return found  # a profiler is attached: the package's own, whose methods are heard
        made = attended()
        made.name = name or ""
        return made

    get_domain.keeps_names = True  # type: ignore[attr-defined]
    nvtx.get_domain = get_domain


def _methods(kind: Any, ears: Ears) -> dict[str, Callable[..., Any]]:
    """Return what replaces the methods of a kind of domains, by name."""
    push, pop, mark = kind.push_range, kind.pop_range, kind.mark
    start, end = kind.start_range, kind.end_range

    def pushed(self: Any, attributes: Any = None, **said: Any) -> Any:
        name, kept = _told(self, attributes, said, "range")
        ears.push(name, _name_of(self), kept)
        return push(self, attributes, **said)

    def popped(self: Any) -> Any:
        ears.pop(_name_of(self))
        return pop(self)

    def marked(self: Any, attributes: Any = None, **said: Any) -> Any:
        ears.mark(*_told(self, attributes, said, "mark"))
        return mark(self, attributes, **said)

    def started(self: Any, attributes: Any = None, **said: Any) -> int:
        name, kept = _told(self, attributes, said, "range")
        return ears.start(name, kept, start(self, attributes, **said))

    def ended(self: Any, range_id: int) -> Any:
        ears.end(range_id)
        return end(self, range_id)

    return {
        "push_range": pushed,
        "pop_range": popped,
        "mark": marked,
        "start_range": started,
        "end_range": ended,
    }


def _keeping(library: Any) -> dict[str, Callable[..., Any]]:
    """Return a dummy's methods that keep what the package's own forget, by name."""
    # The package's methods take nothing else, and what a block made may be used behind it.
    kept: Any = type("KeptAttributes", (library.EventAttributes,), dict.fromkeys(_SAID))

    def get_event_attributes(
        _: Any, message: Any = None, color: Any = None, category: Any = None, payload: Any = None
    ) -> Any:
        made = kept.__new__(kept)
        made.message, made.color, made.category, made.payload = message, color, category, payload
        return made

    def set_event_attributes(_: Any, attributes: Any, **said: Any) -> None:
        if isinstance(attributes, kept):
            for name, value in said.items():
                setattr(attributes, name, value)

    def get_registered_string(_: Any, string: str) -> str:
        return string

    return {
        each.__name__: each
        for each in (get_event_attributes, set_event_attributes, get_registered_string)
    }


def _told(
    domain: Any, attributes: Any, said: Mapping[str, Any], unnamed: str
) -> tuple[str, dict[str, Any]]:
    """Return the name of what a method was called with, and its attributes."""
    whole = {name: getattr(attributes, name, None) for name in _SAID} | dict(said)
    message = whole.pop("message")
    whole["category"] = whole["category"] or None
    whole["domain"] = None if (name := _name_of(domain)) == _FORGOTTEN else name
    return str(getattr(message, "string", message) or unnamed), said_of(whole)


def _name_of(domain: Any) -> str:
    return str(getattr(domain, "name", _FORGOTTEN) or "")
