"""What goes through the codec comes out the same, and what is wrong is named."""

import contextlib
import json
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.encoding.codec import decode, decode_body, encode, encode_body, is_json, parse, unpack
from schemas.encoding.errors import MalformedMessage, SchemaError, UnknownMessage
from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.evaluation import EvaluationCancelled
from schemas.message import Envelope, Fact
from schemas.request import Cancel, Evaluate, ShowTables
from tests.schemas.strategies import messages
from tests.thoroughness import examples

_SOME = settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def _sealed(fact: Fact) -> bytes:
    return encode(Envelope.around(fact, id="1", cause="0", time_ns=5, trace="t"))


@pytest.mark.parametrize("name", FACTS)
@given(data=st.data())
@_SOME
def test_a_fact_comes_out_as_it_went_in(name: str, data: st.DataObject) -> None:
    fact = data.draw(messages(FACTS[name]))
    envelope, read = decode(_sealed(fact))
    assert read == fact
    assert (envelope.schema_, envelope.id, envelope.cause) == (name, "1", "0")
    assert (envelope.time_ns, envelope.traceparent) == (5, "t")


@pytest.mark.parametrize("name", FACTS)
@given(data=st.data())
@_SOME
def test_a_fact_with_later_fields_is_still_read(name: str, data: st.DataObject) -> None:
    fact = data.draw(messages(FACTS[name]))
    later = unpack(_sealed(fact)) | {"added": 1}
    later["data"] |= {"added_later": {"deep": [1]}}
    assert decode(msgpack.packb(later))[1] == fact


@pytest.mark.parametrize("verb", COMMANDS)
@given(data=st.data())
@_SOME
def test_json_and_msgpack_say_the_same(verb: str, data: st.DataObject) -> None:
    command = data.draw(messages(COMMANDS[verb]))
    packed = decode_body(COMMANDS[verb], encode_body(command))
    text = decode_body(COMMANDS[verb], encode_body(command, json_text=True))
    assert packed == text == command


def test_a_fact_may_be_written_as_json() -> None:
    fact = EvaluationCancelled(evaluation="e1", reason="why")
    body = json.dumps(unpack(_sealed(fact))).encode()
    assert decode(body)[1] == fact


@given(st.binary(max_size=200))
@settings(max_examples=examples(300), deadline=None)
def test_no_bytes_raise_anything_but_schema_errors(body: bytes) -> None:
    with pytest.raises(SchemaError):
        decode(body)


@given(st.binary(max_size=40), st.integers(0, 200))
@settings(max_examples=examples(300), deadline=None)
def test_damaged_facts_raise_nothing_but_schema_errors(noise: bytes, at: int) -> None:
    whole = _sealed(EvaluationCancelled(evaluation="e1", reason="why"))
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    with contextlib.suppress(SchemaError):
        assert decode(damaged)[1].schema_name() in FACTS


def test_the_field_that_offends_is_named() -> None:
    body = {"model": "m", "blocks": {"least": 0}}
    with pytest.raises(MalformedMessage) as raised:
        parse(Evaluate, body)
    assert raised.value.field == "blocks.least"
    assert raised.value.found == "0"


def test_a_command_with_a_field_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(MalformedMessage) as raised:
        decode_body(Cancel, b'{"evaluation": "e1", "raeson": "typo"}')
    assert raised.value.field == "raeson"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"evaluation": "e", "tables": [1] * 2_000_000}, "tables.0: "),
        ({str(number): 1 for number in range(500_000)}, "at most 100000 keys"),
        ({"tables": [[]] * 1_000_001}, "at most 1000000 lists"),
    ],
)
def test_countless_faults_cost_no_more_than_the_first(fields: dict[str, Any], reason: str) -> None:
    """Each would take a kilobyte, and a message may have millions."""
    with pytest.raises(MalformedMessage, match=reason) as raised:
        decode_body(ShowTables, msgpack.packb(fields))
    cause = raised.value.__cause__
    assert not isinstance(cause, ValidationError) or cause.error_count() == 1


def test_countless_lists_in_json_are_not_made() -> None:
    body = b'{"evaluation": "e", "tables": [%s[]]}' % (b"[]," * 1_000_000)
    with pytest.raises(MalformedMessage, match="at most 1000000 lists"):
        decode_body(ShowTables, body)


def test_a_deep_field_of_a_fact_is_named() -> None:
    envelope = unpack(_sealed(EvaluationCancelled(evaluation="e1")))
    envelope["data"]["evaluation"] = "not a token"
    with pytest.raises(MalformedMessage) as raised:
        decode(msgpack.packb(envelope))
    assert (raised.value.field, raised.value.found) == ("evaluation", "'not a token'")


def test_a_later_version_is_unknown() -> None:
    envelope = unpack(_sealed(EvaluationCancelled(evaluation="e1"))) | {"version": 2}
    with pytest.raises(UnknownMessage) as raised:
        decode(msgpack.packb(envelope))
    assert (raised.value.schema, raised.value.version) == ("evaluation.cancelled", 2)


@pytest.mark.parametrize("body", [b"[1]", b"\x93\x01\x02\x03", b"{", b"null", b"\xc0"])
def test_what_is_no_map_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedMessage):
        unpack(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"\x80\x80", "nothing after it"),
        (b"\xef\xbb\xbf{}", "nothing after it"),
        (b"\x81\xa1a", "it ends too early"),
    ],
)
def test_bytes_that_are_no_message_are_told_what_to_be(body: bytes, expected: str) -> None:
    with pytest.raises(MalformedMessage, match="one msgpack map or JSON object") as raised:
        unpack(body)
    assert expected in str(raised.value)


def test_an_empty_body_is_an_empty_map() -> None:
    with pytest.raises(MalformedMessage) as raised:
        decode_body(Cancel, b"")
    assert raised.value.field == "evaluation"


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": "\\ud800"}',
        b'{"a": 1' + b"0" * 30 + b"}",
        b'{"a":' * 2000 + b"1" + b"}" * 2000,
    ],
    ids=["nan", "infinity", "half-a-pair", "beyond-64-bits", "deep"],
)
def test_json_that_msgpack_cannot_say_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedMessage):
        unpack(body)


@pytest.mark.parametrize("body", [b"[1,2]", b"null", b'"x"', b"7"])
def test_json_that_is_no_object_is_refused_as_json(body: bytes) -> None:
    assert is_json(body)
    with pytest.raises(MalformedMessage, match="an object is expected"):
        unpack(body)


def test_what_is_neither_json_nor_msgpack_is_refused_with_a_reason() -> None:
    assert not is_json(b"\xc1\xc1")
    with pytest.raises(MalformedMessage, match="a msgpack map or a JSON object"):
        unpack(b"\xc1\xc1")
