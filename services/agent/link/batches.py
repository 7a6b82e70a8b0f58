"""Finished batches as bytes, on their way from worker to host. Pure."""

import msgpack

from schemas.batch import Batch
from schemas.encoding.codec import parse, unpack
from schemas.encoding.message_index import FACTS


def pack_batch(fact: Batch) -> bytes:
    """Return a batch as msgpack."""
    packed: bytes = msgpack.packb({"schema": fact.schema_name(), "data": fact.model_dump()})
    return packed


def unpack_batch(body: bytes) -> Batch:
    """Return a batch from the bytes of `pack_batch`. Raises MalformedMessage."""
    value = unpack(body)
    return parse(FACTS[value["schema"]], value["data"])  # type: ignore[return-value]
