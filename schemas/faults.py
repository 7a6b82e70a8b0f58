"""What is wrong with a message, said of the field that its writer wrote. Pure.

A validator names the branches of a union it tried; here they are left out, and of several
branches the one that came furthest is meant.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from schemas.identity import ALLOWED

_PREFIX = "Value error, "
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Fault:
    """One field ('' is the whole message), what it holds and what it may hold."""

    field: str
    found: str
    expected: str


def first_fault(kind: type[BaseModel], errors: Sequence[ErrorDetails]) -> Fault:
    """Return the first thing that is wrong with a message of this kind."""
    error = next(each for each in errors if not _is_outdone(each, errors))
    path, place = _path_of(kind, error["loc"])
    return Fault(
        field=".".join(str(part) for part in path),
        found="nothing" if error["type"] == "missing" else short(error.get("input")),
        expected=_expected(error, place),
    )


def short(value: object) -> str:
    """Return a value as text of at most 200 characters."""
    return cut(repr(value), _LONGEST)


def cut(text: str, most: int) -> str:
    """Return a text of at most `most` characters; that some are missing shows."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _is_outdone(error: ErrorDetails, errors: Sequence[ErrorDetails]) -> bool:
    """Tell whether another branch of the same union read further than this one did."""
    place = error["loc"][:-1]
    return bool(place) and any(
        len(each["loc"]) > len(error["loc"])
        and each["loc"][: len(place)] == place
        and each["loc"][: len(error["loc"])] != error["loc"]
        for each in errors
    )


def _expected(error: ErrorDetails, place: Sequence[type[BaseModel]]) -> str:
    if error.get("ctx", {}).get("pattern") == ALLOWED:
        return "1 to 64 of A-Z a-z 0-9 _ -"
    if error["type"] == "extra_forbidden":
        return _no_such_field(str(error["loc"][-1]), place)
    return (
        "a value is required" if error["type"] == "missing" else error["msg"].removeprefix(_PREFIX)
    )


def _no_such_field(name: str, place: Sequence[type[BaseModel]]) -> str:
    known = [field for model in place for field in model.model_fields]
    near = get_close_matches(name, known, n=2)
    if near:
        return f"there is no such field; near it: {', '.join(near)}"
    return f"there is no such field; there are: {', '.join(known)}"


def _path_of(
    kind: type[BaseModel], location: Sequence[int | str]
) -> tuple[list[int | str], list[type[BaseModel]]]:
    """Return a location without the names of branches, and the messages its last part is in."""
    path: list[int | str] = []
    here: list[Any] = [kind]
    place: list[type[BaseModel]] = []
    for part in location:
        place = [each for each in here if _is_message(each)]
        if len(here) > 1:
            here = [each for each in here if _is_branch(each, part)]
            continue
        path.append(part)
        here = [inner for each in here for inner in _inside(each, part)]
    return path, place


def _inside(annotation: Any, part: int | str) -> list[Any]:
    """Return the types that a part of a value may have."""
    if _is_message(annotation):
        field = annotation.model_fields.get(part)
        return _branches(field.annotation) if field else []
    inner = get_args(annotation)
    if get_origin(annotation) is tuple:
        return _branches(inner[0])
    return _branches(inner[1]) if get_origin(annotation) is dict else []


def _branches(annotation: Any) -> list[Any]:
    """Return a union's types, `None` left out, or the one type it is."""
    if hasattr(annotation, "__metadata__"):
        return _branches(annotation.__origin__)
    if get_origin(annotation) in (Union, types.UnionType):
        return [
            t for each in get_args(annotation) if each is not type(None) for t in _branches(each)
        ]
    return [annotation]


def _is_branch(annotation: Any, tag: int | str) -> bool:
    """Tell whether the validator calls this branch of a union so: by its name or its `kind`."""
    if not _is_message(annotation):
        name = getattr(annotation, "__name__", "")
        return name == tag or (get_origin(annotation) is Literal and str(tag).startswith("literal"))
    fields: Mapping[str, Any] = annotation.model_fields
    return annotation.__name__ == tag or ("kind" in fields and fields["kind"].default == tag)


def _is_message(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
