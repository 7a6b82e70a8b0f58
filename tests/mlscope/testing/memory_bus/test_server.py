"""A NATS server in memory: who hears what, queue groups, inboxes, going away."""

import asyncio

import pytest

from mlscope.bus.errors import NotProvisioned, PayloadTooLarge, Unreachable
from mlscope.bus.streams import MAX_MESSAGE_BYTES
from mlscope.testing.memory_bus import MemoryServer

SUBJECT = "mlscope.v1.trace.e1.r1.captured.a1"


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


class Heard:
    """What one listener heard."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(self, _: str, body: bytes, __: str) -> None:
        """Take a message."""
        self.bodies.append(body)


def test_filters_and_literals_hear_until_they_leave(server: MemoryServer) -> None:
    wild, literal = Heard(), Heard()
    listeners = [server.listen("a.*", wild), server.listen("a.b", literal)]
    assert server.send("a.b", b"1") == 2
    assert server.send("a.c", b"2") == 1
    for listener in listeners:
        server.leave(listener)
        server.leave(listener)
    assert server.send("a.b", b"3") == 0
    assert (wild.bodies, literal.bodies) == ([b"1", b"2"], [b"1"])


def test_a_queue_group_shares_and_each_message_goes_to_one(server: MemoryServer) -> None:
    members = [Heard(), Heard()]
    for member in members:
        server.listen("a", member, "group")
    for n in range(6):
        assert server.send("a", b"%d" % n) == 1
    assert sorted(len(member.bodies) for member in members) == [3, 3]


def test_a_message_is_heard_and_kept(server: MemoryServer) -> None:
    heard = Heard()
    server.listen("mlscope.>", heard)
    assert server.store(SUBJECT, b"1", id="a", expected=None) == 1
    server.send(SUBJECT, b"2")
    assert heard.bodies == [b"1", b"2"]
    assert server.log_of(SUBJECT).last_sequence == 2


def test_what_no_stream_keeps_is_not_stored(server: MemoryServer) -> None:
    with pytest.raises(NotProvisioned, match="elsewhere"):
        server.store("elsewhere", b"", id="a", expected=None)


def test_a_message_has_a_largest_size(server: MemoryServer) -> None:
    server.send("a", bytes(MAX_MESSAGE_BYTES))
    with pytest.raises(PayloadTooLarge):
        server.send("a", bytes(MAX_MESSAGE_BYTES + 1))


def test_away_is_unreachable_and_nothing_is_lost(server: MemoryServer) -> None:
    server.store(SUBJECT, b"1", id="a", expected=None)
    server.stop()
    with pytest.raises(Unreachable):
        server.send("a", b"")
    server.start()
    assert server.log_of(SUBJECT).last_sequence == 1


def test_no_two_inboxes_are_the_same(server: MemoryServer) -> None:
    assert len({server.new_inbox("a") for _ in range(10)}) == 10


async def test_who_waits_is_woken_by_a_change_or_when_due(server: MemoryServer) -> None:
    waiting = asyncio.create_task(server.changed())
    await asyncio.sleep(0)
    assert not waiting.done()
    server.wake()
    await waiting
    await server.changed(server.clock())
