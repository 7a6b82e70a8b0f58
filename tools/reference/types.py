"""Types and defaults of fields as text. Pure."""

import inspect
import re
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined

from schemas.level import Level

_FIELD = re.compile(r" {4}(\w+): ")


def type_text(annotation: Any) -> str:
    """Return a type as one writes it: `tuple[int, ...]`, `str | None`, `'one' | 'all'`.

    What checks its values, as `Annotated` holds it, is left out.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_text(arguments[0])
    if origin is Literal:
        return " | ".join(map(repr, arguments))
    if origin in (Union, UnionType):
        return " | ".join(map(type_text, arguments))
    if arguments:
        return f"{origin.__name__}[{', '.join(map(type_text, arguments))}]"
    return {Ellipsis: "...", NoneType: "None"}.get(annotation) or annotation.__name__


def default_text(default: Any) -> str:
    """Return a field's default as one writes it in JSON or Python; '' for a field without one."""
    if default is PydanticUndefined:
        return ""
    return repr(default.name.lower() if isinstance(default, Level) else default)


def field_comments(kind: type) -> dict[str, str]:
    """Return the `#:` comment above each field in the source of the class `kind`, by field.

    A comment may have several lines. Fields without a comment have an empty text.
    """
    comments: dict[str, str] = {}
    lines: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        if line.startswith("    #: "):
            lines.append(line.removeprefix("    #: "))
            continue
        if field := _FIELD.match(line):
            comments[field[1]] = " ".join(lines)
        lines = []
    return comments
