"""Faults of a message, in terms of the fields that its writer wrote. Pure.

Pydantic names the branches of a union that it tried; here they are left out, and of several
branches the one that was parsed furthest counts.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from schemas.values.identity import ALLOWED

_PREFIX = "Value error, "
_MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Fault:
    """One field ('' is the whole message), the value found in it and what is expected."""

    field: str
    found: str
    expected: str


def first_fault(kind: type[BaseModel], errors: Sequence[ErrorDetails]) -> Fault:
    """Return the first fault of a message of class `kind` among pydantic's `errors`."""
    error = next(error for error in errors if not _is_superseded(error, errors))
    if error["type"] == "missing":
        error = _misspelt(error, errors) or error
    path, messages = _field_path(kind, error["loc"])
    is_missing = error["type"] == "missing"
    if error.get("ctx", {}).get("pattern") == ALLOWED:
        expected = "1 to 64 of A-Z a-z 0-9 _ -"
    elif error["type"] == "extra_forbidden":
        name = truncate(str(error["loc"][-1]), _MOST_CHARACTERS)
        fields = [field for message in messages for field in message.model_fields]
        similar = get_close_matches(name, fields, n=2)
        existing = f"known fields: {', '.join(fields)}"
        hint = f"did you mean {' or '.join(similar)}?" if similar else existing
        expected = f"unknown field {name}; {hint}"
    elif error["type"] == "string_too_long":
        expected = f"at most {error['ctx']['max_length']} characters"
    elif error["type"] == "too_long":
        is_text = isinstance(error.get("input"), str)
        unit = "characters" if is_text else "entries; leave some out"
        expected = f"at most {error['ctx']['max_length']} {unit}"
    else:
        expected = "a value is required" if is_missing else error["msg"].removeprefix(_PREFIX)
    return Fault(
        field=".".join(truncate(str(part), _MOST_CHARACTERS) for part in path),
        found="nothing" if is_missing else abbreviate(error.get("input")),
        expected=expected,
    )


def abbreviate(value: object) -> str:
    """Return a value as text of at most 200 characters."""
    # Each entry takes one at least, and the text of millions seconds.
    if isinstance(value, str | bytes | list | tuple):
        value = value[:_MOST_CHARACTERS]
    elif isinstance(value, dict):
        value = dict(islice(value.items(), _MOST_CHARACTERS))
    return truncate(repr(value), _MOST_CHARACTERS)


def truncate(text: str, most_characters: int) -> str:
    """Return a text of at most `most_characters`; three dots mark an omission."""
    return text if len(text) <= most_characters else f"{text[: most_characters - 3]}..."


def _misspelt(missing: ErrorDetails, errors: Sequence[ErrorDetails]) -> ErrorDetails | None:
    """Return the error about an unknown field that is similar to a missing one beside it."""
    *place, name = missing["loc"]
    for error in errors:
        *other_place, other = error["loc"]
        is_beside = error["type"] == "extra_forbidden" and other_place == place
        if is_beside and get_close_matches(str(other), [str(name)]):
            return error
    return None


def _is_superseded(error: ErrorDetails, errors: Sequence[ErrorDetails]) -> bool:
    """Return whether another branch of the same union was parsed further than this one."""
    location = error["loc"]
    union = location[:-1]
    return bool(union) and any(
        len(parsed["loc"]) > len(location)
        and parsed["loc"][: len(union)] == union
        and parsed["loc"][: len(location)] != location
        for parsed in errors
    )


def _field_path(
    kind: type[BaseModel], location: Sequence[int | str]
) -> tuple[list[int | str], list[type[BaseModel]]]:
    """Return a location without names of branches, and the messages that its last part is in."""
    path: list[int | str] = []
    types_here: list[Any] = [kind]
    messages: list[type[BaseModel]] = []
    for part in location:
        messages = [annotation for annotation in types_here if _is_message(annotation)]
        if len(types_here) > 1:
            types_here = [annotation for annotation in types_here if _is_branch(annotation, part)]
            continue
        path.append(part)
        types_here = [inner for annotation in types_here for inner in _types_of(annotation, part)]
    return path, messages


def _types_of(annotation: Any, part: int | str) -> list[Any]:
    """Return the types that a part of a value may have."""
    if _is_message(annotation):
        field = annotation.model_fields.get(part)
        return _branches(field.annotation) if field else []
    arguments = get_args(annotation)
    if get_origin(annotation) is tuple:
        return _branches(arguments[0])
    return _branches(arguments[1]) if get_origin(annotation) is dict else []


def _branches(annotation: Any) -> list[Any]:
    """Return a union's types without `None`, or the one type."""
    if hasattr(annotation, "__metadata__"):
        return _branches(annotation.__origin__)
    if get_origin(annotation) in (Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        return [branch for member in members for branch in _branches(member)]
    return [annotation]


def _is_branch(annotation: Any, tag: int | str) -> bool:
    """Return whether pydantic uses this tag for a union's branch: its name or its `kind`."""
    if not _is_message(annotation):
        name = getattr(annotation, "__name__", "")
        return name == tag or (get_origin(annotation) is Literal and str(tag).startswith("literal"))
    fields: Mapping[str, Any] = annotation.model_fields
    return annotation.__name__ == tag or ("kind" in fields and fields["kind"].default == tag)


def _is_message(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
