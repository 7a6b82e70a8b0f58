"""Finished batches as bytes, on their way from worker to host. Pure."""

from typing import get_args

import msgpack

from schemas.batch import Batch
from schemas.encoding.bodies import is_json, parse, unpack
from schemas.encoding.errors import MalformedMessage
from schemas.encoding.faults import abbreviate

MOST_ELEMENTS = 1_000_000
"""Of all lists and maps of a batch; one of 500 rows has some ten thousand."""
_BATCHES: dict[str, type[Batch]] = {kind.schema_name(): kind for kind in get_args(Batch)}


def pack_batch(fact: Batch) -> bytes:
    """Return a batch as msgpack."""
    packed: bytes = msgpack.packb({"schema": fact.schema_name(), "data": fact.model_dump()})
    return packed


def unpack_batch(body: bytes) -> Batch:
    """Return a batch from the bytes of `pack_batch`. Raises MalformedMessage.

    A worker that a model has taken over may write anything: a byte of it may be an element, which
    takes 24.
    """
    if is_json(body):
        raise MalformedMessage(field="", found="a JSON text", expected="a batch in msgpack")
    value = unpack(body, MOST_ELEMENTS)
    schema, fields = value.get("schema"), value.get("data")
    if not isinstance(schema, str) or schema not in _BATCHES or not isinstance(fields, dict):
        expected = f"one of {', '.join(_BATCHES)}, and its data"
        raise MalformedMessage(field="schema", found=abbreviate(schema), expected=expected)
    return parse(_BATCHES[schema], fields)
