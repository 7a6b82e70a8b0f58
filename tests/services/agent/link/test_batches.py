"""What a worker hands over is read within bounds, whoever wrote it."""

import msgpack
import pytest

from schemas.encoding.errors import MalformedMessage
from services.agent.link.batches import MOST_ELEMENTS, unpack_batch


@pytest.mark.parametrize(
    "rows",
    [
        ["ab"] * (MOST_ELEMENTS + 1),
        [["ab"] * (MOST_ELEMENTS // 4)] * 5,
        [{str(number): 1 for number in range(100)}] * (MOST_ELEMENTS // 100 + 1),
    ],
)
def test_a_batch_of_endless_elements_is_refused(rows: list[object]) -> None:
    """A byte of it may be an element, which takes 24: a gigabyte took the agent's whole memory."""
    body = msgpack.packb({"schema": "trace.captured", "data": {"spans": rows}})
    with pytest.raises(MalformedMessage, match=r"elements|exceeds"):
        unpack_batch(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"schema": "trace.captured", "data": {"spans": [1e1, 1e1]}}',
        msgpack.packb({"schema": "none", "data": {}}),
        msgpack.packb({"schema": 7, "data": {}}),
        msgpack.packb({"data": {}}),
        msgpack.packb({"schema": "trace.captured"}),
        msgpack.packb([]),
    ],
)
def test_what_is_no_batch_is_refused(body: bytes) -> None:
    """Of a JSON text the elements are not counted."""
    with pytest.raises(MalformedMessage):
        unpack_batch(body)
