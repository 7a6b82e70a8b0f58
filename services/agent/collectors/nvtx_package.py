"""Listening to the package `nvtx`: what its functions call is replaced for a while.

Its functions look up `get_domain` and those of the library by name as they run, and so do the
methods of `annotate`: whoever imported them, from where ever, is heard. What is made within a block
may be used behind it: domains and range ids are therefore always the package's own kind.
"""

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from services.agent.collectors.nvtx_ears import Ears, replaced, said_of

_MODULE = "nvtx.nvtx"
_SAID = ("message", "color", "domain", "category", "payload")


@contextlib.contextmanager
def listening_to_package(ears: Ears) -> Iterator[None]:
    """Hear the package, where it is loaded and does anything."""
    module = sys.modules.get(_MODULE)
    if module is None or not module.enabled():
        yield
        return
    with contextlib.ExitStack() as undo:
        for name, heard in _functions(module, ears).items():
            undo.enter_context(replaced(module, name, heard))
        for name, heard in _methods(module, ears).items():
            undo.enter_context(replaced(module.annotate, name, heard))
        yield


def listen_to_decorators(ears: Ears) -> None:
    """Have functions that are decorated from now on heard whenever the ears are open."""
    import nvtx.nvtx as module

    decorate = module.annotate.__call__
    if getattr(decorate, "heard_by", None) is ears:
        return

    @functools.wraps(decorate)
    def decorated(self: Any, function: Any) -> Any:
        made = decorate(self, function)
        if made is not function:
            return made  # a profiler is attached: the package's own, whose calls are heard
        said = _said_by(self.init_args)
        name = said["message"] or function.__name__

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            if not ears.is_open:
                return function(*args, **kwargs)
            ears.push(name, said["domain"] or "", _attributes(said))
            try:
                return function(*args, **kwargs)
            finally:
                ears.pop(said["domain"] or "")

        return inner

    decorated.heard_by = ears  # type: ignore[attr-defined]
    module.annotate.__call__ = decorated


class _Heard:
    """A domain as a function of the package sees it: the library is called with it, or its own."""

    def __init__(self, domain: Any, name: str | None, dummy: Any) -> None:
        self.handle = self
        self.name = name or ""
        self.real = None if domain is dummy else domain

    def get_event_attributes(
        self, message: Any = None, color: Any = None, category: Any = None, payload: Any = None
    ) -> Any:
        """Return what is said, beside what the library takes where a profiler listens."""
        said = (message, color, self.name, category, payload)
        if self.real is None:
            return said, None
        return said, self.real.get_event_attributes(message, color, category, payload)


def _functions(module: Any, ears: Ears) -> dict[str, Callable[..., Any]]:
    """Return what replaces what the package's functions look up, by name."""
    real_domain, dummy = module.get_domain, module.dummy_domain
    push, pop, mark = (
        module.libnvtx_push_range, module.libnvtx_pop_range, module.libnvtx_mark
    )  # fmt: skip

    def get_domain(name: str | None = None) -> Any:
        found = real_domain(name)
        return found if _MAKING.annotation else _Heard(found, name, dummy)

    def pushed(attributes: Any, handle: Any) -> Any:
        if not isinstance(handle, _Heard):
            ears.push(_message(attributes), handle.name, _attributes_of(attributes, handle))
            return push(attributes, handle)
        said, real = attributes
        ears.push(*_told(said))
        return push(real, handle.real.handle) if handle.real else None

    def popped(handle: Any) -> Any:
        ears.pop(handle.name)
        if not isinstance(handle, _Heard):
            return pop(handle)
        return pop(handle.real.handle) if handle.real else None

    def marked(attributes: Any, handle: Any) -> Any:
        said, real = attributes
        name, _, kept = _told(said)
        ears.mark(name, kept)
        return mark(real, handle.real.handle) if handle.real else None

    return {
        "get_domain": get_domain,
        "libnvtx_push_range": pushed,
        "libnvtx_pop_range": popped,
        "libnvtx_mark": marked,
        **_process_ranges(module, ears),
    }


def _process_ranges(module: Any, ears: Ears) -> dict[str, Callable[..., Any]]:
    """Return what replaces the functions of ranges that another thread may end, by name."""
    start, end = module.libnvtx_start_range, module.libnvtx_end_range
    nowhere = sys.modules["nvtx._lib.lib"].DomainHandle(None)

    def started(attributes: Any, handle: Any) -> Any:
        said, real = attributes
        name, _, kept = _told(said)
        if not handle.real:
            return ears.start(name, kept), nowhere
        number, domain = start(real, handle.real.handle)
        return ears.start(name, kept, number), domain

    def ended(number: int, handle: Any) -> Any:
        ears.end(number)
        return end(number, handle)

    return {"libnvtx_start_range": started, "libnvtx_end_range": ended}


def _methods(module: Any, ears: Ears) -> dict[str, Callable[..., Any]]:
    """Return what replaces the methods of `annotate`, by name: those no profiler listens to."""
    real_init, real_enter, real_exit = (
        getattr(module.annotate, name) for name in ("__init__", "__enter__", "__exit__")
    )
    dummy = module.dummy_domain

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        _MAKING.annotation = True
        try:
            real_init(self, *args, **kwargs)
        finally:
            _MAKING.annotation = False

    def enter(self: Any) -> Any:
        if self.domain is dummy:
            ears.push(*_told(self.init_args))
        return real_enter(self)

    def leave(self: Any, *raised: Any) -> Any:
        if self.domain is dummy:
            ears.pop(self.init_args[2] or "")
        return real_exit(self, *raised)

    return {"__init__": init, "__enter__": enter, "__exit__": leave}


class _Making(threading.local):
    """Whether this thread makes an annotation, which keeps its domain."""

    annotation = False


_MAKING = _Making()


def _said_by(arguments: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(_SAID, arguments, strict=True))


def _told(arguments: tuple[Any, ...]) -> tuple[str, str, dict[str, Any]]:
    """Return name, domain and attributes of what was said."""
    said = _said_by(arguments)
    return str(said["message"] or ""), str(said["domain"] or ""), _attributes(said)


def _attributes(said: Mapping[str, Any]) -> dict[str, Any]:
    return said_of({name: value for name, value in said.items() if name != "message"})


def _message(attributes: Any) -> str:
    """Return the text of what the package keeps for a profiler."""
    return str(getattr(attributes.message, "string", "") or "")


def _attributes_of(attributes: Any, handle: Any) -> dict[str, Any]:
    said = {name: getattr(attributes, name) for name in ("color", "payload")}
    return _attributes({**said, "domain": handle.name, "category": attributes.category or None})
