"""SQuAD's scores are the official script's, error rates are jiwer's."""

import functools

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.accuracy import (
    Outcome,
    ShapesDiffer,
    Unusable,
    character_error_rate,
    exact_match,
    f1,
    word_error_rate,
)
from mlscope.accuracy.text import answer_f1, edit_distance, edit_distances, normalised_answer
from mlscope.statistics import wilson

#: predicted, truth, and what evaluate-v1.1.py gives: normalised prediction, exact match, F1
OFFICIAL = [
    ("The Denver Broncos!", "Denver Broncos", "denver broncos", 1, 1.0),
    ("Broncos of Denver", "Denver Broncos", "broncos of denver", 0, 0.8),
    ("the", "a", "", 1, 0.0),
    (
        "Caf\u00e9\u2019s \u201cHalo\u201d",
        "Caf\u00e9's Halo",
        "caf\u00e9\u2019s \u201chalo\u201d",
        0,
        0.0,
    ),
    ("in 1,000 A.D.", "1000 AD", "in 1000 ad", 0, 0.8),
    ("theatre an-other", "theatre another", "theatre another", 1, 1.0),
    ("the the cat cat", "cat the", "cat cat", 0, 2 / 3),
    ("", "x", "", 0, 0.0),
]
words = st.lists(st.sampled_from(["a", "bc", "d", "a."]), max_size=7).map(" ".join)
said = st.lists(st.tuples(words.filter(bool), words), min_size=1, max_size=6)


@pytest.mark.parametrize(("predicted", "truth", "normal", "exact", "score"), OFFICIAL)
def test_golden_values_of_the_official_script(
    predicted: str, truth: str, normal: str, exact: int, score: float
) -> None:
    assert normalised_answer(predicted) == normal
    assert exact_match([predicted], [[truth]]).value == exact
    assert answer_f1(predicted, truth) == pytest.approx(score)
    assert answer_f1(truth, predicted) == answer_f1(predicted, truth)


def test_the_best_of_several_truths_counts() -> None:
    truths = [["Denver", "the Denver Broncos"], ["1000 AD"]]
    predicted = ["Denver Broncos", "in 1000 AD"]
    exact, score = exact_match(predicted, truths), f1(predicted, truths)
    assert (exact.value, exact.interval) == (0.5, wilson(1, 2))
    assert score.value == pytest.approx(0.9)


def test_unanswered_questions_score_zero_and_those_without_truth_are_excluded() -> None:
    for metric in (exact_match, f1):
        found = metric(["x", None, None, "y"], [["x"], ["z"], [], []])
        assert (found.value, found.n, found.excluded) == (0.5, 2, 2)
        assert found.caveats == ("1 unanswered questions score 0, as in the official script",)


def test_a_truth_that_is_one_string_is_refused() -> None:
    with pytest.raises(Unusable):
        exact_match(["x"], ["xyz"])
    with pytest.raises(ShapesDiffer):
        f1(["x"], [])


def _slow_distance(first: str, second: str) -> int:
    @functools.cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        kept = distance(i - 1, j - 1) + (first[i - 1] != second[j - 1])
        return min(kept, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(first), len(second))


@given(st.text("abc", max_size=9), st.text("abc", max_size=9))
def test_edit_distance_is_the_definition_s(first: str, second: str) -> None:
    found = edit_distance(first, second)
    assert found == _slow_distance(first, second) == edit_distance(second, first)
    assert abs(len(first) - len(second)) <= found <= max(len(first), len(second))


@given(said)
def test_error_rates_are_jiwer_s(pairs: list[tuple[str, str]]) -> None:
    truths, predicted = [true for true, _ in pairs], [seen for _, seen in pairs]
    words_wrong, characters_wrong = jiwer.wer(truths, predicted), jiwer.cer(truths, predicted)
    assert word_error_rate(predicted, truths).value == pytest.approx(words_wrong)
    assert character_error_rate(predicted, truths).value == pytest.approx(characters_wrong)


def test_golden_error_rates() -> None:
    found = word_error_rate(["the cat sat", "hello"], ["the cat sat down", "hullo"])
    assert (found.value, found.n) == (2 / 5, 5)
    found = character_error_rate(["kitten"], ["sitting"])
    assert (found.value, found.n, found.interval) == (3 / 7, 7, None)
    assert word_error_rate(["a b c"], ["a"]).value == 2.0


def test_texts_that_would_take_hours_are_left_out() -> None:
    long = "ab" * 100_000
    assert edit_distances([("kitten", "sitting"), (long, long[1:]), ("ab", "b")]) == [3, None, 1]
    found = character_error_rate([long, "ab"], [long[1:], "ab"])
    assert (found.value, found.n, found.excluded) == (0.0, 2, 1)
    assert found.caveats == ("utterances that are too long to be compared: 1",)


def _ends(found: Outcome) -> tuple[float, float]:
    assert found.interval is not None
    assert found.interval.low is not None
    assert found.interval.high is not None
    return found.interval.low, found.interval.high


def test_the_interval_resamples_utterances_with_a_seed() -> None:
    predicted, truths = ["a b", "a x", "x x"] * 20, ["a b", "a b", "a b"] * 20
    found = word_error_rate(predicted, truths)
    low, high = _ends(found)
    # Utterances' rates are 0, .5 and 1: their mean's standard error is .0527.
    assert low == pytest.approx(0.397, abs=0.02)
    assert high == pytest.approx(0.603, abs=0.02)
    assert _ends(word_error_rate(predicted, truths)) == (low, high)


def test_utterances_without_transcript_are_excluded_and_silence_has_no_rate() -> None:
    found = word_error_rate(["a", None, "b"], ["a", "b", None])
    assert (found.value, found.n, found.excluded) == (0.0, 1, 2)
    assert word_error_rate(["a"], [""]).value is None
    assert word_error_rate(["x", "a"], ["", "a"]).value == 1.0
