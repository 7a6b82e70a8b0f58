"""HTML without a template language: `element("a", "text", href="/")` escapes its text. Pure."""

from collections.abc import Iterable
from html import escape

_VOID = frozenset({"meta", "link", "input", "br"})


class Markup(str):
    """Text that is HTML and needs no escaping."""

    __slots__ = ()


Part = str | Iterable[str]


def element(tag: str, /, *parts: Part, **attributes: str | bool | None) -> Markup:
    """Return an element `tag` with `parts` inside.

    Names of `attributes` lose a trailing underscore, and `_` becomes `-`. Attributes that are None
    or False are omitted; True stands for an attribute without value.
    """
    attribute_texts = []
    for key, value in attributes.items():
        name = key.rstrip("_").replace("_", "-")
        if value is True:
            attribute_texts.append(f" {name}")
            continue
        if isinstance(value, str):
            attribute_texts.append(f' {name}="{escape(value)}"')
    start = f"<{tag}{''.join(attribute_texts)}>"
    return Markup(start if tag in _VOID else f"{start}{''.join(map(_escaped, parts))}</{tag}>")


def text_of(*parts: Part) -> Markup:
    """Return the concatenated parts, escaped unless they are markup."""
    return Markup("".join(map(_escaped, parts)))


def _escaped(part: Part) -> str:
    if isinstance(part, Markup):
        return part
    if isinstance(part, str):
        return escape(part)
    return "".join(_escaped(inner) for inner in part)
