"""Recording of the package `nvtx`, by wrappers around its public functions and methods.

Wrapped are the functions of the module `nvtx`, the methods of `annotate` and those of domains
(`domains`). Nothing private is used: what an annotation was made with is read by the pickle
protocol (`__reduce__`). Code that imported a function by its name before it was wrapped, such as
`from nvtx import mark`, calls the original, which is not recorded; `annotate` and domains are
wrapped in their classes, so it does not matter how they were imported.
"""

import functools
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from services.agent.collectors.nvtx.domains import domain_methods, named_get_domain
from services.agent.collectors.nvtx.recorder import RangeRecorder, range_attributes
from services.agent.collectors.nvtx.wrapping import Replacements


class PackageWrappers:
    """The wrappers around the package's functions: for a time, or permanently."""

    def __init__(self, recorder: RangeRecorder) -> None:
        self._recorder = recorder
        self._replacements = Replacements()
        self._is_permanent = False

    def install(self) -> None:
        """Wrap the package until `remove`, where it is loaded and enabled."""
        nvtx = sys.modules.get("nvtx")
        if nvtx is not None and nvtx.enabled() and not self._is_permanent:
            self._wrap(nvtx)

    def remove(self) -> None:
        """Put back the originals, unless the wrappers are permanent."""
        self._replacements.undo()

    def install_permanently(self) -> None:
        """Import the package and wrap it from now on, its decorators and domains' names included.

        Called before other code imports the package. Raises ImportError where it is not installed.
        """
        nvtx = import_module("nvtx")
        if not nvtx.enabled() or self._is_permanent:
            return
        get_domain = nvtx.get_domain
        self._wrap(nvtx)
        self._replacements.put(
            nvtx.annotate, "__call__", _recorded_decorator(nvtx.annotate, self._recorder)
        )
        self._replacements.put(nvtx, "get_domain", named_get_domain(nvtx.Domain, get_domain))
        self._replacements.make_permanent()
        self._is_permanent = True

    def _wrap(self, nvtx: Any) -> None:
        # Without a profiler get_domain returns a stand-in of another class.
        domain_classes = {nvtx.Domain, type(nvtx.get_domain())}
        wrappers: list[tuple[Any, Mapping[str, Callable[..., Any]]]] = [
            (nvtx, _functions(nvtx, self._recorder)),
            (nvtx.annotate, _context_methods(nvtx.annotate, self._recorder)),
            *((kind, domain_methods(kind, self._recorder)) for kind in domain_classes),
        ]
        for owner, functions in wrappers:
            for name, function in functions.items():
                self._replacements.put(owner, name, function)
        _wrap_end_range(nvtx, self._recorder)


class RangeId(NamedTuple):
    """What `start_range` returns where no profiler is attached, in the form of the package's."""

    number: int
    domain: str


def _functions(nvtx: Any, recorder: RangeRecorder) -> dict[str, Callable[..., Any]]:
    """Return the wrappers of the module's functions by name."""
    real_pop = nvtx.pop_range

    def push(name: str, domain: str, attributes: Mapping[str, Any], _: None) -> None:
        recorder.push(name, domain, attributes)

    def mark(name: str, _: str, attributes: Mapping[str, Any], __: None) -> None:
        recorder.mark(name, attributes)

    def start(name: str, domain: str, attributes: Mapping[str, Any], range_id: Any) -> Any:
        if range_id is None:  # no profiler is attached
            return RangeId(recorder.start(name, attributes), domain)
        recorder.start(name, attributes, range_id[0])
        return range_id

    @functools.wraps(real_pop)
    def pop_range(domain: Any = None) -> None:
        recorder.pop(domain or "")
        real_pop(domain)

    return {
        "push_range": _recorded_call(nvtx.push_range, push, "blue"),
        "pop_range": pop_range,
        "mark": _recorded_call(nvtx.mark, mark, "blue"),
        "start_range": _recorded_call(nvtx.start_range, start, None),
    }


def _recorded_call(
    real: Callable[..., Any], record: Callable[..., Any], default_color: str | None
) -> Callable[..., Any]:
    """Return a wrapper with the signature of the package's functions.

    `real`: the package's function. `record`: called with name, domain, attributes and what the
    package's function returned; its result is the wrapper's.
    """

    @functools.wraps(real)
    def wrapper(
        message: Any = None,
        color: Any = default_color,
        domain: Any = None,
        category: Any = None,
        payload: Any = None,
    ) -> Any:
        attributes = range_attributes(
            color=color, domain=domain, category=category, payload=payload
        )
        result = real(message, color, domain, category, payload)
        return record(str(message or ""), domain or "", attributes, result)

    return wrapper


def _wrap_end_range(nvtx: Any, recorder: RangeRecorder) -> None:
    """Wrap `end_range` for good: a `RangeId` from within a block may be ended after it."""
    real_end = nvtx.end_range
    if getattr(real_end, "is_recorded", False):
        return

    @functools.wraps(real_end)
    def end_range(range_id: Any) -> None:
        if range_id is not None:
            recorder.end(range_id[0])
        if not isinstance(range_id, RangeId):
            real_end(range_id)

    end_range.is_recorded = True  # type: ignore[attr-defined]
    nvtx.end_range = end_range


def _context_methods(annotate: Any, recorder: RangeRecorder) -> dict[str, Callable[..., Any]]:
    """Return the wrappers of the methods by which `annotate` is a context manager, by name."""
    real_enter, real_exit = annotate.__enter__, annotate.__exit__

    @functools.wraps(real_enter)
    def enter(annotation: Any) -> Any:
        message, domain, attributes = _arguments_of(annotation)
        recorder.push(message, domain, attributes)
        return real_enter(annotation)

    @functools.wraps(real_exit)
    def leave(annotation: Any, *error: Any) -> Any:
        recorder.pop(_arguments_of(annotation)[1])
        return real_exit(annotation, *error)

    return {"__enter__": enter, "__exit__": leave}


def _recorded_decorator(annotate: Any, recorder: RangeRecorder) -> Callable[..., Any]:
    """Return the wrapper of `annotate.__call__`: calls of decorated functions are recorded."""
    real_call = annotate.__call__

    @functools.wraps(real_call)
    def decorate(annotation: Any, function: Any) -> Any:
        decorated = real_call(annotation, function)
        message, domain, attributes = _arguments_of(annotation)
        name = message or function.__name__

        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            if not recorder.is_open:
                return decorated(*args, **kwargs)
            recorder.push(name, domain, attributes)
            try:
                return decorated(*args, **kwargs)
            finally:
                recorder.pop(domain)

        return recorded

    return decorate


def _arguments_of(annotation: Any) -> tuple[str, str, dict[str, Any]]:
    """Return an annotation's message, domain and attributes, as pickle would copy them."""
    message, color, domain, category, payload = annotation.__reduce__()[1]
    attributes = range_attributes(color=color, domain=domain, category=category, payload=payload)
    return str(message or ""), str(domain or ""), attributes
