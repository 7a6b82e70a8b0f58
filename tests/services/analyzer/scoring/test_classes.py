"""Top-1 and top-5: by label where both sides have one, else by number; what is left out is said."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import pytest

from services.analyzer.frames.evaluation import ScoringContext
from services.analyzer.frames.predictions import Prediction
from services.analyzer.scoring.classes import classes
from services.analyzer.scoring.judgement import Judgement


def by_number(sample: int, ranked: Sequence[int], *true: int) -> Prediction:
    """Return an answer that ranks class numbers, and the true ones."""
    features: list[dict[str, Any]] = [{"index": index} for index in ranked]
    return Prediction("r0", sample, sample, features, {"classes": list(true)}, {})


def by_label(sample: int, ranked: Sequence[str], *true: str) -> Prediction:
    """Return an answer that ranks labels, and the true ones; numbers mean something else."""
    features = [{"index": 100 + n, "label": label} for n, label in enumerate(ranked)]
    truth = {"classes": [sample], "labels": list(true)}
    return Prediction("r0", sample, sample, features, truth, {})


def judged(*predictions: Prediction) -> dict[str, Judgement]:
    return {each.outcome.name: each for each in classes(predictions, ScoringContext())}


def values(*predictions: Prediction) -> dict[str, tuple[float | None, int]]:
    """Return each metric's value and the samples it is of."""
    outcomes = judged(*predictions).values()
    return {each.outcome.name: (each.outcome.value, each.outcome.n) for each in outcomes}


def test_the_first_class_and_the_first_five_are_judged() -> None:
    answers = [
        by_number(0, [3, 1, 2, 0, 4], 3),
        by_number(1, [3, 1, 2, 0, 4], 4),
        by_number(2, [3, 1, 2, 0, 4], 9),
        by_number(3, [3, 1, 2, 0, 4], 7, 2),
    ]
    assert values(*answers) == {"top-1": (0.25, 4), "top-5": (0.75, 4)}
    assert "by class number" in judged(*answers)["top-1"].outcome.method


@pytest.mark.parametrize(("shortest", "metrics"), [(4, ["top-1"]), (5, ["top-1", "top-5"])])
def test_a_list_of_fewer_than_five_says_nothing_of_the_first_five(
    shortest: int, metrics: list[str]
) -> None:
    answers = [by_number(0, range(6), 0), by_number(1, range(shortest), 0)]
    assert list(values(*answers)) == metrics
    # A list whose class nobody knows is judged by nothing, however short.
    assert list(values(*answers, by_number(2, range(1)))) == metrics


def test_labels_count_before_numbers_in_any_case_and_by_any_of_their_names() -> None:
    answers = [
        by_label(0, ["Tench, Tinca tinca"], "tench"),
        by_label(1, ["goldfish"], "Carassius auratus, GOLDFISH"),
        by_label(2, ["shark"], "tiger shark, Galeocerdo cuvieri"),
        by_label(3, ["tench, Tinca tinca"], "tench, tinca tinca"),
    ]
    assert values(*answers) == {"top-1": (0.75, 4)}
    assert "by label" in judged(*answers)["top-1"].outcome.method


@pytest.mark.parametrize("side", ["answers", "truth"])
def test_labels_of_one_side_alone_leave_the_numbers(side: str) -> None:
    features = [{"index": 3, "label": "cat" if side == "answers" else ""}]
    truth: dict[str, Any] = {"classes": [3], "labels": ["dog"] if side == "truth" else []}
    outcome = judged(Prediction("r0", 0, 0, features, truth, {}))["top-1"].outcome
    assert (outcome.value, outcome.caveats) == (1.0, ())
    assert "by class number" in outcome.method


def test_labels_that_never_meet_are_doubted() -> None:
    strangers = [by_label(n, ["katze"], "cat") for n in range(2)]
    outcome = judged(*strangers)["top-1"].outcome
    assert outcome.value == 0.0
    doubt = "no answer has a label of the dataset: are the labels the same?"
    assert outcome.caveats == (doubt,)
    # One that meets elsewhere is enough, though it is wrong there.
    met = judged(*strangers, by_label(2, ["cat"], "dog"))["top-1"].outcome
    assert (met.value, met.caveats) == (0.0, ())


def test_answers_without_a_class_are_excluded_and_counted() -> None:
    answers = [by_number(0, [1], 1), by_number(1, [], 1), by_number(2, [], 1)]
    outcome = judged(*answers)["top-1"].outcome
    assert (outcome.value, outcome.n, outcome.excluded) == (1.0, 1, 2)
    assert outcome.caveats == ("2 answers without a class are excluded",)


def test_samples_of_no_known_class_are_no_judgement() -> None:
    (judgement,) = judged(by_number(0, [1], 1), by_number(1, [2])).values()
    assert (judgement.judged, judgement.outcome.n) == (1, 1)


def with_scores(sample: int, true: int, *scores: int) -> Prediction:
    """Return an answer with raw scores of so many classes, for each output."""
    raw = {f"o{n}": b64encode(bytes(4 * size)).decode() for n, size in enumerate(scores)}
    truth = {"classes": [true]}
    return Prediction("r0", sample, sample, [{"index": 0}], truth, {}, raw=raw)


@pytest.mark.parametrize(
    ("true", "scores", "is_known"),
    [(2, (3,), True), (3, (3,), False), (-1, (3,), False), (9, (3, 4), True), (9, (), True)],
    ids=["last", "beyond", "negative", "two outputs", "no scores"],
)
def test_a_class_beyond_the_models_is_wrong_and_named(
    true: int, scores: tuple[int, ...], is_known: bool
) -> None:
    outcome = judged(with_scores(4, true, *scores))["top-1"].outcome
    assert (outcome.value, outcome.n) == (0.0, 1)
    start = "1 sample has a class that the model does not know and counts as wrong, first: "
    assert [note.startswith(start) for note in outcome.caveats] == ([] if is_known else [True])


def test_a_class_below_zero_is_named_where_the_number_of_classes_is_unknown() -> None:
    (note,) = judged(with_scores(4, -1), with_scores(5, -2))["top-1"].outcome.caveats
    assert note == (
        "2 samples have a class that the model does not know and count as wrong, first: "
        "sample 4 is labelled -1"
    )
