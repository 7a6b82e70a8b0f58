"""The frame of every page, and the pages that say little: login, trouble."""

from collections.abc import Mapping, Sequence

from schemas.request import Refused
from services.gateway.pages.markup import Markup, Part, element

_PLACES = (("Evaluations", "/evaluations"), ("Models", "/models"))


def page(title: str, *parts: Part, script: bool = False) -> str:
    """Return a whole document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} · mlscope"),
        element("link", rel="stylesheet", href="/static/page.css"),
        element("link", rel="icon", href="/static/icon.svg"),
        element("script", type="module", src="/static/live.js") if script else "",
    )
    links = (element("a", name, href=address) for name, address in _PLACES)
    top = element(
        "header",
        element("a", "mlscope", href="/evaluations", class_="home"),
        element("nav", *links),
    )
    body = element("body", top, element("main", *parts))
    return "<!doctype html>\n" + element("html", head, body, lang="en")


def login_page(note: str = "") -> str:
    """Return the form that asks for the bearer token."""
    form = element(
        "form",
        element("label", "Bearer token ", element("input", type="password", name="token")),
        element("button", "Enter"),
        method="post",
        action="/login",
    )
    return page("Enter", element("h1", "Enter"), element("p", note) if note else "", form)


def trouble_page(refused: Refused) -> str:
    """Return why there is no page, and where to go."""
    return page(
        refused.error,
        element("h1", refused.error.capitalize()),
        element("p", refused.message),
        element("p", element("a", "Every evaluation", href="/evaluations")),
    )


def search_form(
    action: str,
    texts: Mapping[str, tuple[str, str]],
    choices: Mapping[str, tuple[str, str, Sequence[str]]],
) -> Markup:
    """Return a form whose query is sent to `action`.

    `texts` are label and value by name, `choices` label, what is chosen and what may be ('' any).
    """
    fields = [
        element("label", label, " ", element("input", name=name, value=value))
        for name, (label, value) in texts.items()
    ]
    for name, (label, chosen, known) in choices.items():
        options = (
            element("option", each or "any", value=each, selected=each == chosen)
            for each in ("", *known)
        )
        fields.append(element("label", label, " ", element("select", *options, name=name)))
    button = element("button", "Search")
    return element("form", *fields, button, action=action, class_="search", role="search")


def pairs(*rows: tuple[str, Part]) -> Markup:
    """Return a list of names and what they stand for; empty ones are left out."""
    shown = [(element("dt", name), element("dd", value)) for name, value in rows if value]
    return element("dl", *(part for pair in shown for part in pair))
