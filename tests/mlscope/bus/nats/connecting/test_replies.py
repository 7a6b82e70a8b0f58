"""Who waits is told once: by a reply, by a denial of the very subject, or by a lost server."""

import asyncio

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from mlscope.bus.errors import BusError, NotPermitted, Unreachable
from mlscope.bus.nats.connecting.replies import ReplySubjects, first_of


@pytest.fixture
def room() -> ReplySubjects:
    return ReplySubjects("_INBOX_a.1")


class Waiter:
    """What one who waits was told."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.errors: list[BusError] = []

    def enter(self, room: ReplySubjects, subject: str) -> str:
        """Wait for what is said to a subject's question."""
        return room.enter(subject, lambda message: self.bodies.append(message.data), self.fail)

    def fail(self, error: BusError) -> None:
        """Take a failure."""
        self.errors.append(error)


def reply(token: str, body: bytes) -> Msg:
    """Return a message."""
    return Msg(Client(), subject=token, data=body)


async def test_a_reply_goes_to_who_asked_until_they_leave(room: ReplySubjects) -> None:
    one, two = Waiter(), Waiter()
    tokens = [each.enter(room, "a") for each in (one, two)]
    assert len(set(tokens)) == 2
    await room.received(reply(tokens[0], b"1"))
    room.leave(tokens[0])
    await room.received(reply(tokens[0], b"2"))
    assert (one.bodies, two.bodies) == ([b"1"], [])


def test_a_denial_concerns_its_subject_in_whatever_case(room: ReplySubjects) -> None:
    denied, other = Waiter(), Waiter()
    denied.enter(room, "$JS.API.Stream")
    other.enter(room, "a")
    room.note_denial('nats: permissions violation for publish to "$js.api.stream"')
    assert [type(error) for error in denied.errors] == [NotPermitted]
    assert other.errors == []
    assert room.is_denied("$JS.API.STREAM")
    assert not room.is_denied("a")


def test_without_an_inbox_nobody_is_answered_until_the_next_connection(
    room: ReplySubjects,
) -> None:
    waiters = [Waiter(), Waiter(), Waiter()]
    waiters[0].enter(room, "a")
    text = f'permissions violation for subscription to "{room.inbox}.*"'
    assert room.note_denial(text.lower()), "somebody is told"
    waiters[1].enter(room, "b")
    room.fail_all(Unreachable("x"))
    waiters[2].enter(room, "b")
    assert [type(waiter.errors[0]) for waiter in waiters[:2]] == [NotPermitted] * 2
    assert waiters[2].errors == []


def test_who_is_told_of_a_denial_says_so_and_no_log(room: ReplySubjects) -> None:
    text = 'permissions violation for publish to "a"'
    assert not room.note_denial(text)
    Waiter().enter(room, "a")
    assert room.note_denial(text)


@pytest.mark.parametrize("text", ["stale connection", "permissions violation for nothing", ""])
def test_other_complaints_deny_nothing(room: ReplySubjects, text: str) -> None:
    room.note_denial(text)
    assert not room.denied


def test_the_newest_denials_are_remembered(room: ReplySubjects) -> None:
    for number in range(1000):
        room.note_denial(f'permissions violation for publish to "a.{number}"')
    assert room.is_denied("a.999")
    assert not room.is_denied("a.0")
    assert len(room.denied) == 256


def test_a_lost_server_fails_everybody(room: ReplySubjects) -> None:
    waiters = [Waiter(), Waiter()]
    for waiter in waiters:
        waiter.enter(room, "a")
    room.fail_all(Unreachable("x"))
    assert [len(waiter.errors) for waiter in waiters] == [1, 1]


async def test_the_first_word_counts() -> None:
    replied: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
    receive, fail = first_of(replied)
    receive(reply("a", b"1"))
    receive(reply("a", b"2"))
    fail(Unreachable("x"))
    assert (await replied).data == b"1"
    failed: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
    receive, fail = first_of(failed)
    fail(Unreachable("x"))
    receive(reply("a", b"1"))
    with pytest.raises(Unreachable):
        await failed
