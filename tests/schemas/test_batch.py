"""Hot batches: the layout in the contract's words is the layout on the wire."""

import re
import struct

import msgpack
import pytest

from mlscope.tracing.batches import (
    LINKED_COLUMNS,
    OUTPUT_COLUMNS,
    QUERY_COLUMNS,
    Attempt,
    query_batch,
)
from schemas.batch import Batch, OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.encoding.codec import decode, encode
from schemas.message import Envelope

_ATTEMPT = Attempt(evaluation="e1", run="r0", attempt=1, agent="a1", origin_ns=1000)
_ROWS = [
    (0, 0, 4, -1, 1500, 1600, 2000, 300, 0, ""),
    (1, 0, 4, 1700, 1800, 1900, 2500, -1, 1, "worker died"),
]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (TraceCaptured, LINKED_COLUMNS),
        (QueriesAnswered, QUERY_COLUMNS),
        (OutputsPredicted, OUTPUT_COLUMNS),
    ],
)
def test_every_column_is_bytes_of_the_message(kind: type[Batch], columns: dict[str, str]) -> None:
    packed = [name for name, field in kind.model_fields.items() if field.annotation is bytes]
    assert packed == list(columns)


def test_the_documented_width_of_a_column_is_its_own() -> None:
    said = re.findall(r"`(\w+)` int(\d+)", TraceCaptured.__doc__ or "")
    assert len(said) == len(LINKED_COLUMNS)
    assert {name: f"<i{int(bits) // 8}" for name, bits in said} == LINKED_COLUMNS


def test_any_client_reads_a_batch_with_msgpack_and_struct_alone() -> None:
    batch = query_batch(_ATTEMPT, 0, _ROWS)
    body = encode(Envelope.around(batch, id="1", cause="0", time_ns=5))
    data = msgpack.unpackb(body)["data"]
    assert struct.unpack("<2i", data["query"]) == (0, 1)
    assert struct.unpack("<2q", data["due_ns"]) == (-1, 700)
    assert struct.unpack("<2q", data["ended_ns"]) == (1000, 1500)
    assert struct.unpack("<2b", data["status"]) == (0, 1)
    assert (data["error_rows"], data["error_texts"]) == ([1], ["worker died"])
    assert decode(body)[1] == batch
