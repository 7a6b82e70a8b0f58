"""Tokens and ids: legal everywhere, the same for the same cause, apart for different ones."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from schemas.values.identity import (
    ALLOWED,
    Token,
    keyed_evaluation_id,
    new_evaluation_id,
    run_key,
    token_of,
)

_TOKEN = TypeAdapter(Token)


@given(st.text(max_size=80))
def test_any_text_has_a_token(text: str) -> None:
    assert _TOKEN.validate_python(token_of(text)) == token_of(text)


@given(st.from_regex(r"\A[A-Za-z0-9_-]{1,48}\Z"))
def test_a_token_is_its_own(text: str) -> None:
    assert token_of(text) == text


@pytest.mark.parametrize(("one", "other"), [("a.b", "a:b"), ("a b", "a_b"), ("x" * 60, "x" * 61)])
def test_changed_texts_stay_apart(one: str, other: str) -> None:
    assert token_of(one) != token_of(other)


@pytest.mark.parametrize("text", ["", "a b", "a.b", "a*", "a>", "ä", "x" * 65, "a\n"])
def test_what_no_subject_can_hold_is_no_token(text: str) -> None:
    with pytest.raises(ValidationError):
        _TOKEN.validate_python(text)


def test_ids_of_evaluations_are_tokens() -> None:
    assert re.fullmatch("[0-9a-f]{16}", new_evaluation_id())
    assert new_evaluation_id() != new_evaluation_id()
    assert keyed_evaluation_id("k") == keyed_evaluation_id("k") != keyed_evaluation_id("l")
    assert re.match(ALLOWED, keyed_evaluation_id(""))


@given(st.text(max_size=9), st.text(max_size=9), st.integers(1, 99))
def test_a_run_s_key_is_a_positive_int8_of_its_attempt(evaluation: str, run: str, n: int) -> None:
    key = run_key(evaluation, run, n)
    assert 0 <= key < 2**63
    assert key != run_key(evaluation, run, n + 1)
