"""Commands of people are answered as far as the role in their subject allows."""

import pytest

from mlscope.bus.asked import answer_all
from mlscope.bus.records import ReceivedCommand
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import unpack
from schemas.request import Cancel
from schemas.subjects import ASKED


@pytest.mark.parametrize("who", ["ada.king.0.0", "ada.owner.many.0", "ada.viewer.0.0"])
async def test_who_has_no_such_role_is_refused(who: str) -> None:
    """A failure would be logged with its traceback, as often as somebody likes."""

    async def answer(_: ReceivedCommand) -> bytes:
        raise AssertionError("nobody may ask this")

    server = MemoryServer()
    async with connect(server, "scheduler") as scheduler, connect(server, "gateway") as gateway:
        await answer_all(scheduler, Cancel, answer, queue="scheduler")
        answered = unpack(await gateway.ask(f"{ASKED}.{who}.{Cancel.verb}", b"{}"))
    assert answered["error"] == "forbidden"
