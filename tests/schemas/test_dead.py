"""A dead letter keeps what nobody could use, bytes and all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.dead import LetterBuried
from schemas.encoding.codec import decode, encode, parse
from schemas.encoding.errors import MalformedMessage
from schemas.message import Envelope
from schemas.subjects import subject_of


@given(st.binary(max_size=200), st.text(max_size=20))
def test_any_body_is_kept(body: bytes, reason: str) -> None:
    letter = LetterBuried(service="collector", reason=reason, subject="a.b", body=body)
    sealed = encode(Envelope.around(letter, id="1", cause="0", time_ns=5))
    assert decode(sealed)[1] == letter


def test_a_letter_is_found_by_who_gave_up() -> None:
    letter = LetterBuried(service="collector", reason="r", subject="s")
    assert subject_of(letter) == "mlscope.v1.dead.collector.buried"


@pytest.mark.parametrize("field", ["service", "reason", "subject"])
def test_who_why_and_where_are_required(field: str) -> None:
    whole = {"service": "collector", "reason": "r", "subject": "s"}
    with pytest.raises(MalformedMessage) as raised:
        parse(LetterBuried, {name: value for name, value in whole.items() if name != field})
    assert raised.value.field == field
