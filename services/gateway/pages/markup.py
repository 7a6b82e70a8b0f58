"""HTML without a template language: `element("a", "text", href="/")`, escaped by construction."""

from collections.abc import Iterable
from html import escape

_VOID = frozenset({"meta", "link", "input", "br"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Part = str | Iterable[str]


def element(tag: str, /, *parts: Part, **attributes: str | bool | None) -> Markup:
    """Return an element; a trailing underscore of an attribute's name is dropped.

    Attributes that are None or False are left out, True has no value; `_` is `-` in names.
    """
    shown = "".join(_attribute(key, value) for key, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{shown}>")
    return Markup(f"<{tag}{shown}>{_inside(parts)}</{tag}>")


def text_of(*parts: Part) -> Markup:
    """Return parts one after the other, escaped where they are plain text."""
    return Markup(_inside(parts))


def _inside(parts: Iterable[Part]) -> str:
    return "".join(_escaped(part) for part in parts)


def _escaped(part: Part) -> str:
    if isinstance(part, Markup):
        return part
    if isinstance(part, str):
        return escape(part)
    return "".join(_escaped(each) for each in part)


def _attribute(key: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(value)}"'
