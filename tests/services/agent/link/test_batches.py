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
