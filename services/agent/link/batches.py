"""Finished batches as bytes, on their way from worker to host. Pure."""

from typing import get_args

import msgpack

from schemas.batch import Batch
from schemas.encoding.bodies import parse, unpack

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
    value = unpack(body, MOST_ELEMENTS)
    return parse(_BATCHES[value["schema"]], value["data"])
