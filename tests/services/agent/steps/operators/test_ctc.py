"""ctc: scores by moment to text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.errors import BadParameter
from tests.services.agent.steps.applying import apply, made

ALPHABET = ("a", "b", "|")


def scores_of(path: list[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return (1, time, classes) whose best class is the path's."""
    return np.eye(4)[None, path] * 0.5


@pytest.mark.parametrize(
    ("path", "text"),
    [([1, 1, 0, 1, 2], "aab"), ([0, 0], ""), ([3, 1, 3, 2, 3], "a b"), ([2, 2, 2], "b")],
)
def test_repeats_become_one_and_blanks_none(path: list[int], text: str) -> None:
    for lines in (ALPHABET, ("<blank>", *ALPHABET)):
        ((feature,),) = made("ctc", lines, labels="l").apply(scores_of(path))
        assert (feature["text"], feature["probability"]) == (text, 0.5 if any(path) else 0.0)


@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=20))
def test_text_with_blanks_between_is_read_back(letters: list[str]) -> None:
    path = [each for letter in letters for each in (0, " ab".index(letter))]
    step = made("ctc", ALPHABET, labels="l", data_layout="TNC")
    ((feature,),) = step.apply(scores_of(path).transpose(1, 0, 2))
    assert feature["text"] == "".join(letters)


def test_an_alphabet_is_needed() -> None:
    with pytest.raises(BadParameter, match="labels must be the name of the alphabet's file"):
        apply("ctc", None)
