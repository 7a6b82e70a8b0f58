"""Bodies of messages: commands, answers and batches to bytes and back. Knows no kind of message."""

import json
import math
from typing import Any, TypeVar, cast

import msgpack
from pydantic import ValidationError

from schemas.encoding.errors import MalformedMessage
from schemas.encoding.faults import abbreviate, first_fault
from schemas.message import Message

M = TypeVar("M", bound=Message)
C = TypeVar("C", list[Any], dict[Any, Any])

MOST_CONTAINERS = 1_000_000
"""Lists and maps of a message."""

MOST_KEYS = 100_000
"""Keys of one map: each unknown one is a fault."""


def pack(value: dict[str, Any]) -> bytes:
    """Return a map as msgpack."""
    return cast("bytes", msgpack.packb(value))


def encode_body(message: Message, *, json_text: bool = False) -> bytes:
    """Return a command or an answer as msgpack, or as JSON."""
    if json_text:
        return message.model_dump_json().encode()
    return pack(message.model_dump(mode="python"))


def is_json(body: bytes) -> bool:
    """Return whether a body is JSON: a msgpack map never starts with an ASCII character."""
    return b"" < body[:1] < b"\x80"


def unpack(body: bytes, most_elements: int | None = None) -> dict[str, Any]:
    """Return the map in a body, of `most_elements` in all its lists. Raises MalformedMessage."""
    try:
        value = _parse_json(body) if is_json(body) else _parse_msgpack(body, most_elements)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException, RecursionError) as error:
        expected = str(error) or "a msgpack map or a JSON object"
        raise MalformedMessage(
            field="", found=abbreviate(bytes(body[:64])), expected=expected
        ) from error
    if not isinstance(value, dict):
        expected = "an object is expected" if is_json(body) else "a map is expected"
        raise MalformedMessage(field="", found=abbreviate(value), expected=expected)
    return value


class _Containers:
    """Counts the lists and maps of a message: a byte of it may be one, which takes 60."""

    def __init__(self, most_elements: int | None = None) -> None:
        self._count = 0
        self._elements_left = math.inf if most_elements is None else most_elements

    def take(self, container: C) -> C:
        """Return a list or map. Raises ValueError for one too many, and for too many keys."""
        self._count += 1
        if self._count > MOST_CONTAINERS:
            raise ValueError(f"at most {MOST_CONTAINERS} lists and maps are expected")
        if isinstance(container, dict) and len(container) > MOST_KEYS:
            raise ValueError(f"at most {MOST_KEYS} keys of a map are expected")
        self._elements_left -= len(container)
        if self._elements_left < 0:
            raise ValueError("fewer elements of lists and maps are expected")
        return container


def _parse_msgpack(body: bytes, most_elements: int | None = None) -> Any:
    """Return the value of a whole body. Raises ValueError, which says what is expected."""
    take = _Containers(most_elements).take
    # A list is made before it is counted.
    longest = -1 if most_elements is None else most_elements
    try:
        return msgpack.unpackb(
            body, strict_map_key=False, list_hook=take, object_hook=take, max_array_len=longest
        )
    except msgpack.ExtraData as error:
        raise ValueError("one msgpack map or JSON object is expected, nothing after it") from error
    except ValueError as error:
        if "incomplete input" not in str(error):
            raise
        early = "one msgpack map or JSON object is expected; it ends too early"
        raise ValueError(early) from error


def _parse_json(body: bytes) -> Any:
    """Return the value of a JSON text that msgpack can encode too, as every fact requires.

    That excludes integers beyond 64 bits, halves of surrogate pairs and deep nesting.
    """
    # The parser has no hook for lists. Brackets in texts count too: nobody writes so many.
    if body.count(b"[") > MOST_CONTAINERS:
        raise ValueError(f"at most {MOST_CONTAINERS} lists and maps are expected")

    def reject_constant(text: str) -> object:
        raise ValueError(f"{text} is not valid in JSON")

    value = json.loads(body, parse_constant=reject_constant, object_hook=_Containers().take)
    msgpack.packb(value)
    return value


def decode_body(kind: type[M], body: bytes) -> M:
    """Return a command or an answer; an empty body is an empty map. Raises MalformedMessage."""
    return parse(kind, unpack(body) if body else {})


def parse(kind: type[M], value: dict[str, Any]) -> M:
    """Return `value` as a message. Raises MalformedMessage, which names the first wrong field."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        fault = first_fault(kind, error.errors(include_url=False))
        raise MalformedMessage(
            field=fault.field, found=fault.found, expected=fault.expected
        ) from error
