"""Which metrics judge the answers: those of their most frequent kind."""

from typing import Any

from services.analyzer.frames.evaluation import ScoringContext
from services.analyzer.frames.predictions import Prediction
from services.analyzer.scoring import judge

CLASS: dict[str, Any] = {"type": "classification", "index": 3, "probability": 1.0}
TEXT: dict[str, Any] = {"type": "text", "text": "hello"}
ODD: dict[str, Any] = {"type": "smell"}


def metrics(*features: dict[str, Any]) -> set[str]:
    """Return the metrics of one answer of each feature, whose ground truth fits both kinds."""
    truth = {"classes": [3], "texts": ["hello"]}
    answers = [Prediction("r0", n, n, [each], truth) for n, each in enumerate(features)]
    return {judgement.outcome.name for judgement in judge(answers, ScoringContext())}


def test_the_most_frequent_kind_has_the_metrics() -> None:
    assert metrics(TEXT, CLASS, CLASS) == metrics(CLASS) == {"top-1"}
    assert metrics(TEXT, CLASS, TEXT) == metrics(TEXT)
    assert "top-1" not in metrics(TEXT)


def test_of_kinds_that_are_equally_frequent_the_first_has_them_in_every_process() -> None:
    # The order of a set of texts differs from process to process.
    assert metrics(TEXT, CLASS) == metrics(TEXT)
    assert metrics(CLASS, TEXT) == metrics(CLASS)


def test_without_a_kind_or_ground_truth_there_is_no_metric() -> None:
    assert metrics(ODD) == metrics() == set()
    assert judge([Prediction("r0", 0, 0, [CLASS])], ScoringContext()) == []
