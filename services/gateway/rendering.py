"""Views as HTML: the template environment, and what every template may use."""

import re
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from mlscope.quantities import age_text, estimated, shown
from services.gateway.static_files import shipped_files

_TEMPLATES = Path(__file__).with_name("templates")

_UNITS: Mapping[str, str] = MappingProxyType(
    {"hz": "Hz", "s": "s", "ms": "ms", "us": "µs", "ns": "ns", "bytes": "bytes"}
)
"""Units by the last part of a parameter's name."""
_OLD_S = 60 * 86_400
"""From this age on a date says more than an age."""

NAVIGATION = (
    ("Home", "/"),
    ("Evaluations", "/evaluations"),
    ("New", "/new"),
    ("Explore", "/explore"),
    ("Compare", "/compare"),
    ("Models", "/models"),
    ("Agents", "/agents"),
    ("Frameworks", "/frameworks"),
    ("Datasets", "/datasets"),
    ("Scenarios", "/scenarios"),
)
"""Name and path of the main pages; those without a route are left out of the navigation."""


class View(Protocol):
    """What a page shows: the name of its template, its title, and fields for the template."""

    @property
    def template(self) -> str:
        """The template's file name."""

    @property
    def title(self) -> str:
        """The document's title, without the name of the product."""


def rendered(request: Request, view: View, status: int = 200) -> HTMLResponse:
    """Return a `view` as the response to a `request`, with the code `status`."""
    return HTMLResponse(html_of(view, request.app.state.page_paths, request.url.path), status)


def html_of(view: View, page_paths: Collection[str] = (), path: str = "") -> str:
    """Return a `view` as a document; `page_paths` exist on this gateway, `path` is its own."""
    template = environment().get_template(view.template)
    links = [(name, address) for name, address in NAVIGATION if address in page_paths]
    sections = [
        address for _, address in links if path == address or path.startswith(f"{address}/")
    ]
    return template.render(page=view, links=links, section=max(sections, key=len, default=""))


def label_of(name: str) -> str:
    """Return the label of a parameter by its `name`, as `rate (Hz)` of `rate_hz`."""
    quantity, _, suffix = name.rpartition("_")
    unit = _UNITS.get(suffix, "") if quantity else ""
    return f"{quantity.replace('_', ' ')} ({unit})" if unit else name.replace("_", " ")


@cache
def environment() -> Environment:
    """Return the environment of all templates: autoescaping, and an unknown name is an error."""
    templates = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {
        "age": age_element,
        "bytes": lambda size_bytes: unbroken(shown(size_bytes, "By")),
        "count": lambda number: f"{number:,}",
        "duration": lambda duration_ns: unbroken(shown(duration_ns, "ns")),
        "interval": interval_text,
        "label": label_of,
        "prose": prose,
        "rate": lambda per_second: unbroken(shown(per_second, "1/s")),
        "share": lambda value: shown(value, "share"),
        "shown": lambda value, unit="": unbroken(shown(value, unit)),
        "time": time_element,
        "unbroken": unbroken,
    }
    templates.filters |= filters
    templates.globals |= {
        "modules_of": lambda path: shipped_files().modules_of(path),
        "static": lambda path: shipped_files().address(path),
        "version": version("mlscope"),
    }
    return templates


def interval_text(estimate: tuple[float, float | None, float | None], unit: str = "") -> str:
    """Return an `estimate` (value, low, high), which are in `unit`, as text."""
    value, low, high = estimate
    return unbroken(estimated(value, low, high, unit))


def prose(text: str) -> Markup:
    """Return a text of a manifest with the words between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup().join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


_UNITS_IN_TEXTS = r"[nµm]?s|[kMGT]?(?:B|FLOP)|[KMGT]iB|[MG]Hz|[mk]?[JW]|°C|(?:samples|queries)?/s"
_BEFORE_UNIT = re.compile(rf"(?<=\d) (?=(?:{_UNITS_IN_TEXTS})\b)")


def unbroken(text: str) -> str:
    """Return a text in which no line begins with the unit of a number: `126 GiB`, `5 ms`."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def time_element(epoch_ns: int) -> Markup:
    """Return a time as UTC to the second, which a script may show in another way; '' for 0."""
    if not epoch_ns:
        return Markup()
    moment = datetime.fromtimestamp(epoch_ns // 10**9, UTC)
    return Markup('<time datetime="{:%Y-%m-%dT%H:%M:%SZ}">{:%Y-%m-%d %H:%M:%S} UTC</time>').format(
        moment, moment
    )


def age_element(epoch_ns: int, now_ns: int | None = None) -> Markup:
    """Return how long ago a time was, now or at `now_ns`, with the time itself as a tooltip."""
    if not epoch_ns:
        return Markup()
    moment = datetime.fromtimestamp(epoch_ns // 10**9, UTC)
    age_s = ((time.time_ns() if now_ns is None else now_ns) - epoch_ns) / 1e9
    text = age_text(age_s) if age_s < _OLD_S else f"{moment:%Y-%m-%d}"
    return Markup(
        '<time datetime="{:%Y-%m-%dT%H:%M:%SZ}" title="{:%Y-%m-%d %H:%M:%S} UTC">{}</time>'
    ).format(moment, moment, text)
