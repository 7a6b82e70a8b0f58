"""The frame of every page, and the pages that say little: login, trouble."""

from schemas.request import Refused
from services.gateway.pages.markup import Markup, Part, element


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
    top = element("header", element("a", "mlscope", href="/evaluations", class_="home"))
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


def pairs(*rows: tuple[str, Part]) -> Markup:
    """Return a list of names and what they stand for; empty ones are left out."""
    shown = [(element("dt", name), element("dd", value)) for name, value in rows if value]
    return element("dl", *(part for pair in shown for part in pair))
