"""Facts to bytes and back: large ones by reference, unreadable ones left out, dead ones named."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.bus.envelopes import (
    SkippingReader,
    dead_letter,
    decode_recorded,
    encode_envelope,
    in_envelope,
    payload_name,
    refusal,
    refusal_reason,
)
from mlscope.bus.errors import NoSuchPayload
from mlscope.bus.records import Traffic, Unreadable
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from mlscope.testing.memory_bus.log import MemoryMessage
from schemas.encoding.codec import encode, unpack
from schemas.encoding.errors import SchemaError
from schemas.subjects import subject_of
from tests.contracts.facts import a_batch, a_fact

DECISION = subject_of(a_fact())


class Shelf:
    """Objects by name."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}

    async def keep(self, subject: str, name: str, body: bytes) -> str:
        """Store a payload."""
        assert subject == DECISION
        self.bodies[name] = body
        return hashlib.sha256(body).hexdigest()

    async def fetch(self, subject: str, name: str, _: str) -> bytes:
        """Return a payload."""
        assert subject == DECISION
        if name not in self.bodies:
            raise NoSuchPayload(name)
        return self.bodies[name]


async def test_only_what_is_too_large_becomes_an_object() -> None:
    shelf = Shelf()
    for size_bytes, objects in ((MAX_PAYLOAD_BYTES - 1000, 0), (MAX_PAYLOAD_BYTES, 1)):
        fact = a_fact("x" * size_bytes)
        body = await encode_envelope(DECISION, in_envelope(fact, id="a"), shelf.keep)
        assert len(body) <= MAX_PAYLOAD_BYTES
        assert len(shelf.bodies) == objects
        assert (await decode_recorded(DECISION, 3, body, shelf.fetch)).fact == fact


async def test_another_content_under_the_same_id_is_another_object() -> None:
    shelf = Shelf()
    names = set()
    for letter in "xyx":
        envelope = in_envelope(a_fact(letter * MAX_PAYLOAD_BYTES), id="a")
        names.add(payload_name(await encode_envelope(DECISION, envelope, shelf.keep)))
    assert names == set(shelf.bodies)
    assert len(names) == 2


async def test_what_refers_to_nothing_has_no_payload() -> None:
    small = await encode_envelope(DECISION, in_envelope(a_fact("x"), id="a"), Shelf().keep)
    large = await encode_envelope(
        DECISION, in_envelope(a_fact("x" * 100_000), id="a"), Shelf().keep
    )
    assert [payload_name(each) for each in (small, large, b"{", b"", b"\xff" * 100)] == [""] * 5


async def test_a_reader_goes_on_over_what_nobody_can_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It says so once: who polls the end of a log gets what is unreadable there every second."""
    shelf = Shelf()
    lost = await encode_envelope(
        DECISION, in_envelope(a_fact("x" * MAX_PAYLOAD_BYTES), id="a"), shelf.keep
    )
    shelf.bodies.clear()
    traffic = Traffic()
    reader = SkippingReader(shelf.fetch, traffic)
    unreadable: list[Unreadable] = []
    for _ in range(5):
        assert await reader.decode(MemoryMessage(DECISION, 1, lost, 7), unreadable) is None
        assert await reader.decode(MemoryMessage(DECISION, 2, b"nonsense", 8)) is None
    assert {(one.subject, one.sequence, one.stored_ns) for one in unreadable} == {(DECISION, 1, 7)}
    assert unreadable[0].reason in caplog.text
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        f"skipped {DECISION} at 1",
        f"skipped {DECISION} at 2",
    ]
    evaluation = DECISION.split(".")[3]
    assert {vars(record)["evaluation"] for record in caplog.records} == {evaluation}
    assert (traffic.unread, reader.unread(evaluation), reader.unread("other")) == (2, 2, 0)
    with pytest.raises(SchemaError):
        await decode_recorded(DECISION, 1, b"nonsense", shelf.fetch)


@given(st.binary(max_size=200))
def test_no_bytes_upset_the_search_for_a_payload(body: bytes) -> None:
    assert isinstance(payload_name(body), str)


def test_a_stored_messages_letter_is_the_same_each_time() -> None:
    place = {"sequence": 7, "deliveries": 3}
    letters = [
        dead_letter("a_service", "why", subject="s", body=b"x", stream="LOG", **place)
        for _ in range(2)
    ]
    assert letters[0] == letters[1]
    letter, _ = letters[0]
    assert (letter.service, letter.sequence, letter.deliveries) == ("a_service", 7, 3)


def test_a_commands_letter_is_new_each_time_and_keeps_its_beginning() -> None:
    (letter, first), (_, second) = (
        dead_letter("s", "why", subject="s", body=bytes(1 << 20)) for _ in range(2)
    )
    assert first != second
    assert len(letter.body) == 64 * 1024


def test_a_letter_fits_a_message_whatever_its_reason() -> None:
    reason, body = "\U0001f600" * 1_000_000, bytes(1 << 20)
    letter, letter_id = dead_letter("s", reason, subject="s", body=body)
    assert letter.reason.startswith("\U0001f600")
    assert len(encode(in_envelope(letter, id=letter_id))) < MAX_PAYLOAD_BYTES


@pytest.mark.parametrize("asked", [b"{}", b"\x80"])
def test_a_refusal_speaks_as_it_was_asked(asked: bytes) -> None:
    answer = refusal("busy", "later", asked)
    assert (answer[:1] == b"{") == (asked[:1] == b"{")
    assert unpack(answer)["error"] == "busy"
    assert refusal_reason(answer) == "busy: later"


@pytest.mark.parametrize("answer", [b'{"accepted": true}', b"{}", b"nonsense", b""])
def test_what_does_not_refuse_has_no_reason(answer: bytes) -> None:
    assert refusal_reason(answer) is None


def test_an_envelope_keeps_cause_and_trace() -> None:
    envelope = in_envelope(a_batch(1), id="a", cause="c", traceparent="00-1-2-03")
    assert (envelope.id, envelope.cause, envelope.traceparent) == ("a", "c", "00-1-2-03")
