"""Large payloads by name and checksum."""

import hashlib
import random

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import NoSuchPayload, PayloadMismatch


@pytest.mark.parametrize("size_bytes", [0, 1, 131_072, 5_000_000])
async def test_a_payload_comes_back_whole(bus: Bus, size_bytes: int) -> None:
    body = random.Random(size_bytes).randbytes(size_bytes)
    sha256 = await bus.put_object("plan.bin", body)
    assert sha256 == hashlib.sha256(body).hexdigest()
    assert await bus.get_object("plan.bin", sha256) == body


async def test_a_payload_nobody_put(bus: Bus) -> None:
    with pytest.raises(NoSuchPayload) as raised:
        await bus.get_object("plan.bin", "0" * 64)
    assert raised.value.name == "plan.bin"


async def test_a_payload_that_is_another_is_refused(bus: Bus) -> None:
    older = await bus.put_object("plan.bin", b"one")
    newer = await bus.put_object("plan.bin", b"two")
    assert await bus.get_object("plan.bin", newer) == b"two"
    with pytest.raises(PayloadMismatch) as raised:
        await bus.get_object("plan.bin", older)
    assert (raised.value.expected, raised.value.found) == (older, newer)
