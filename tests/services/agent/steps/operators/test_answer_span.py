"""answer_span: scores of first and last pieces to a context's own characters."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.errors import BadParameter
from services.agent.steps import Operator
from tests.services.agent.steps.applying import apply, made

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "?", "ann", "met", "bob", "##by", "-", "(", ")")
CONTEXT = "Änn  met Bobby-Ann\n(zzz) met."
PIECES = ("Änn", "met", "Bob", "by", "-", "Ann", "(zzz)", "(zzz)", "(zzz)", "met.", "met.")
"""What each piece of the context is placed at: a word with an unknown piece is one whole."""
FIRST = len(("[CLS]", "who", "?", "[SEP]"))
LENGTH = FIRST + len(PIECES) + 3


def step(**parameters: Any) -> Operator:
    return made("answer_span", WORDS, end="ends", vocabulary="v", **parameters)


def scores(place: int, height: float = 1.0) -> Any:
    return np.eye(LENGTH, dtype=np.float32)[place] * height


def answer(first: int, last: int, **parameters: Any) -> str:
    """Return the answer whose first and last piece of the context score most."""
    starts, ends = scores(FIRST + first)[None], scores(FIRST + last)[None]
    ((feature,),) = step(**parameters).apply(starts, ends, [["Who?", CONTEXT]])
    assert feature["type"] == "text"
    return str(feature["text"])


@given(st.integers(0, len(PIECES) - 1), st.integers(0, len(PIECES) - 1))
def test_the_answer_is_the_context_s_own_characters(one: int, other: int) -> None:
    first, last = sorted((one, other))
    found = answer(first, last)
    assert found in CONTEXT
    assert found.startswith(PIECES[first])
    assert found.endswith(PIECES[last])


def test_an_answer_neither_ends_before_its_begin_nor_is_too_long() -> None:
    assert answer(5, 2) == "Änn  met Bob"
    assert answer(0, 4, most_pieces=4) == "Änn"
    assert answer(0, 3, most_pieces=4) == "Änn  met Bobby"


def test_questions_and_padding_are_no_answer() -> None:
    for place in (*range(1, FIRST), LENGTH - 1):
        starts = (scores(place, 9.0) + scores(FIRST))[None]
        ((feature,),) = step().apply(starts, starts, [{"question": "Who?", "context": CONTEXT}])
        assert (feature["text"], feature["score"]) == ("Änn", 2.0)


@pytest.mark.parametrize(("threshold", "text"), [(1.0, ""), (3.0, "Änn")])
def test_there_may_be_none(threshold: float, text: str) -> None:
    starts = (scores(0, 2.0) + scores(FIRST))[None]
    ready = step(may_be_none=True, null_threshold=threshold)
    ((feature,),) = ready.apply(starts, starts, [["Who?", CONTEXT]])
    assert feature["text"] == text


def test_what_was_cut_off_is_no_answer() -> None:
    starts = np.full((1, FIRST + 3), -1.0)
    starts[0, FIRST + 1] = 0
    ((feature,),) = step().apply(starts, starts, [["Who?", CONTEXT]])
    assert feature["text"] == "met"


def test_a_bad_sample_has_no_answer_and_an_odd_one_is_said() -> None:
    starts = np.stack([scores(FIRST), scores(FIRST)])
    none, (feature,) = step().apply(starts, starts, [None, ["Who?", CONTEXT]])
    assert (none, feature["text"]) == ([], "Änn")
    with pytest.raises(ValueError, match="a pair of question and context"):
        step().apply(starts[:1], starts[:1], [b"text"])


def test_the_other_output_is_needed() -> None:
    with pytest.raises(BadParameter, match="end must be the output that scores last pieces"):
        apply("answer_span", None)
    assert step().extra_outputs == ("ends",)
    assert step().wants_samples
