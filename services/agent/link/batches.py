"""Finished batches as bytes, on their way from worker to host. Pure."""

from typing import get_args

import msgpack

from schemas.batch import Batch
from schemas.encoding.bodies import parse, unpack

_BATCHES: dict[str, type[Batch]] = {kind.schema_name(): kind for kind in get_args(Batch)}


def pack_batch(fact: Batch) -> bytes:
    """Return a batch as msgpack."""
    packed: bytes = msgpack.packb({"schema": fact.schema_name(), "data": fact.model_dump()})
    return packed


def unpack_batch(body: bytes) -> Batch:
    """Return a batch from the bytes of `pack_batch`. Raises MalformedMessage."""
    value = unpack(body)
    return parse(_BATCHES[value["schema"]], value["data"])
