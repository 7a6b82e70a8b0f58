"""Free-form values hold what JSON can hold, and no more."""

import json
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.encoding.codec import decode_envelope, encode, fact_in
from schemas.encoding.errors import MalformedMessage
from schemas.message import MAX_NAME, Envelope
from schemas.run import Conditions
from schemas.values.json_values import MAX_DEPTH, check_json, json_object_in
from tests.services.collector.builders import a_completion

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(JSON)
def test_what_json_can_hold_is_taken_as_it_is(value: object) -> None:
    assert json.loads(json.dumps(check_json(value))) == value


def nested(depth: int) -> list[Any]:
    """Return lists within lists."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": {"b": b"x"}}, "expected a JSON value at a.b, found bytes"),
        ({"a": [{1: "x"}]}, "expected text as a key at a.0, found int"),
        ({"a": nested(300)}, "nested deeper than 32 levels"),
        ({"a": {1, 2}}, "found set"),
    ],
)
def test_other_values_are_refused_with_their_place(value: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_json(value)


def test_the_depth_is_bounded_not_the_width() -> None:
    assert check_json(nested(MAX_DEPTH))
    assert check_json({str(number): number for number in range(10_000)})


@pytest.mark.parametrize(
    "text", ["", "[1]", b"\xff", '{"a": ' + "[" * 40 + "]" * 40 + "}", "[" * 9999]
)
def test_a_text_without_a_map_has_no_attributes(text: str | bytes) -> None:
    assert json_object_in(text) == {}
    assert json_object_in(b'{"a": [1]}') == {"a": [1]}


@pytest.mark.parametrize("value", [b"\xff\xfe", nested(300)])
@pytest.mark.parametrize("field", ["options", "noise"])
def test_a_fact_with_other_values_is_malformed(field: str, value: object) -> None:
    fact = a_completion().model_copy(
        update={"conditions": Conditions().model_copy(update={field: {"x": value}})}
    )
    envelope = decode_envelope(encode(Envelope.around(fact, id="1", cause="", time_ns=1)))
    with pytest.raises(MalformedMessage) as refused:
        fact_in(envelope, envelope.data)
    assert refused.value.field == f"conditions.{field}"


@pytest.mark.parametrize("field", ["id", "cause", "payload", "schema"])
def test_a_name_that_would_be_too_long_a_subject_is_malformed(field: str) -> None:
    fields = {"schema": "run.completed", "id": "1", "time_ns": 1, "data": {}}
    body = msgpack.packb(fields | {field: "x" * (MAX_NAME + 1)})
    with pytest.raises(MalformedMessage) as refused:
        decode_envelope(body)
    assert refused.value.field == field
