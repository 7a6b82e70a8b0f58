"""Texts that a database takes."""

import json

from hypothesis import given
from hypothesis import strategies as st

from mlscope.tracing.texts import json_text, plain_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
    max_leaves=10,
)


@given(VALUES)
def test_every_value_becomes_strict_json_without_nul(value: object) -> None:
    text = json_text(value)
    assert "\0" not in json.dumps(json.loads(text), ensure_ascii=False)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(text, parse_constant=refuse)


def test_what_json_lacks_is_null() -> None:
    assert json_text({"p": [float("nan"), 1.5, float("-inf")]}) == b'{"p":[null,1.5,null]}'


def test_a_backslash_is_no_nul() -> None:
    assert json.loads(json_text(["\\u0000"])) == ["\\u0000"]
    assert json.loads(json_text(["a\0b"])) == ["a\N{REPLACEMENT CHARACTER}b"]


@given(st.text())
def test_plain_text_changes_nothing_else(text: str) -> None:
    assert plain_text(text) == text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def test_lone_surrogates_are_replaced() -> None:
    assert plain_text("a\ud800b") == "a?b"
