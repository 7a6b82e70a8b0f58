"""tokenize: text to pieces of words."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.earlier_steps import earlier_tokens
from services.agent.errors import BadParameter
from services.agent.steps.operators.wordpiece import basic_tokens
from tests.services.agent.steps.applying import made

# The example of BERT's own tests (tokenization_test.py).
VOCABULARY = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "want",
    "##want",
    "##ed",
    "wa",
    "un",
    "runn",
    "##ing",
    ",",
    "hello",
    "!",
    "how",
    "are",
    "you",
    "?",
    "博",
    "推",
)


def pieces(text: Any, length: int = 16, **parameters: Any) -> list[str]:
    """Return the pieces of a text."""
    step = made("tokenize", VOCABULARY, vocabulary="v", length=length, **parameters)
    return [VOCABULARY[index] for index in step.apply(text) if index]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unwanted running", "un ##want ##ed runn ##ing"),
        ("unwantedX running", "[UNK] runn ##ing"),
        (b" \tHeLLo!how  \n Are yoU?  ", "hello ! how are you ?"),
        ("H\u00e9llo", "hello"),
        ("how博推are", "how 博 推 are"),
        ("hello\u0000,\ufffd\u200bhow", "hello , how"),
        ("", ""),
        ("hello" * 30, "[UNK]"),
    ],
)
def test_pieces_are_those_of_the_reference(text: Any, expected: str) -> None:
    assert pieces(text) == ["[CLS]", *expected.split(), "[SEP]"]


def test_capitals_matter_unless_lowered() -> None:
    assert pieces("Hello hello", lowercase=False)[1:3] == ["[UNK]", "hello"]


def test_a_pair_is_cut_at_the_longer_and_has_types_and_a_mask() -> None:
    pair = ["hello", "how are you how are you"]
    assert pieces(pair, 8) == ["[CLS]", "hello", "[SEP]", "how", "are", "you", "how", "[SEP]"]
    rows = {
        gives: made("tokenize", VOCABULARY, vocabulary="v", length=12, gives=gives).apply(pair)
        for gives in ("ids", "mask", "types")
    }
    assert rows["mask"].tolist() == [1] * 10 + [0] * 2
    assert rows["types"].tolist() == [0] * 3 + [1] * 7 + [0] * 2
    assert rows["ids"][-2:].tolist() == [0, 0]


@given(st.text(max_size=300), st.integers(3, 20))
def test_any_text_becomes_a_row(text: str, length: int) -> None:
    row = made("tokenize", VOCABULARY, vocabulary="v", length=length).apply(text)
    assert row.shape == (length,)
    assert row.dtype == np.int64
    assert row[0] == 2


@pytest.mark.parametrize("value", [b"\xff\xfe", ["a", "b", "c"], [1]])
def test_what_is_no_text_is_no_good(value: Any) -> None:
    with pytest.raises(ValueError, match=r"string|utf-8"):
        pieces(value)


def test_a_vocabulary_has_the_special_pieces() -> None:
    with pytest.raises(BadParameter, match=r"vocabulary must be a file with \[UNK\]"):
        made("tokenize", ("hello",), vocabulary="v")


ASCII = st.text(st.characters(max_codepoint=127))


@given(ASCII | st.text(), st.booleans())
def test_words_are_those_of_the_earlier_step(text: str, lowercase: bool) -> None:
    assert [*basic_tokens(text, lowercase=lowercase)] == earlier_tokens(text, lowercase=lowercase)


def test_every_ascii_character_is_what_unicode_calls_it() -> None:
    text = "".join(f"a{chr(code)}B " for code in range(128))
    for lowercase in (False, True):
        assert [*basic_tokens(text, lowercase=lowercase)] == earlier_tokens(
            text, lowercase=lowercase
        )
