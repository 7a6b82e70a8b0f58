"""The frame of every page, the login page and the error page. Pure."""

from collections.abc import Mapping, Sequence

from schemas.request import Refused
from services.gateway.pages.markup import Markup, Part, element

_LINKS = (("Evaluations", "/evaluations"), ("Models", "/models"))


def page(title: str, *parts: Part, script: bool = False) -> str:
    """Return a complete document; with `script` it keeps itself up to date."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} · mlscope"),
        element("link", rel="stylesheet", href="/static/page.css"),
        element("link", rel="icon", href="/static/icon.svg"),
        element("script", type="module", src="/static/live.js") if script else "",
    )
    links = (element("a", name, href=address) for name, address in _LINKS)
    header = element(
        "header",
        element("a", "mlscope", href="/evaluations", class_="home"),
        element("nav", *links),
    )
    body = element("body", header, element("main", *parts))
    return "<!doctype html>\n" + element("html", head, body, lang="en")


def login_page(note: str = "") -> str:
    """Return the form for the bearer token, with a `note` above it."""
    form = element(
        "form",
        element("label", "Bearer token ", element("input", type="password", name="token")),
        element("button", "Log in"),
        method="post",
        action="/login",
    )
    return page("Log in", element("h1", "Log in"), element("p", note) if note else "", form)


def error_page(refused: Refused) -> str:
    """Return a page that explains a refusal, with a link to the list of evaluations."""
    return page(
        refused.error,
        element("h1", refused.error.capitalize()),
        element("p", refused.message),
        element("p", element("a", "All evaluations", href="/evaluations")),
    )


def search_form(
    action: str,
    texts: Mapping[str, tuple[str, str]],
    choices: Mapping[str, tuple[str, str, Sequence[str]]],
) -> Markup:
    """Return a form that sends its fields as a query to the address `action`.

    `texts`: label and value of each text field by name; `choices`: label, selected value and
    values of each list by name; '' stands for any value.
    """
    fields = [
        element("label", label, " ", element("input", name=name, value=value))
        for name, (label, value) in texts.items()
    ]
    for name, (label, selected, values) in choices.items():
        options = (
            element("option", value or "any", value=value, selected=value == selected)
            for value in ("", *values)
        )
        fields.append(element("label", label, " ", element("select", *options, name=name)))
    button = element("button", "Search")
    return element("form", *fields, button, action=action, class_="search", role="search")


def pairs(*rows: tuple[str, Part]) -> Markup:
    """Return a list of names and their values; rows with empty values are omitted."""
    non_empty = [(element("dt", name), element("dd", value)) for name, value in rows if value]
    return element("dl", *(part for pair in non_empty for part in pair))
