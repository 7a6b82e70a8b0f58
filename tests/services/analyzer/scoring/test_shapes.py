"""Average precision of boxes and masks: whose size and class counts, and what is not judged."""

from typing import Any

import pytest

from services.analyzer.frames.evaluation import ScoringContext
from services.analyzer.frames.predictions import Prediction
from services.analyzer.scoring.judgement import Judgement
from services.analyzer.scoring.shapes import shapes

UPPER = {"size": [2, 2], "counts": [0, 1, 1, 1, 1]}
"""The upper row of a picture of two rows and columns."""


def a_mask(label: str = "", index: int = 1) -> dict[str, Any]:
    """Return an answered mask of the upper row."""
    kind = {"type": "instancesegment", "index": index, "label": label, "probability": 0.5}
    return kind | {"mask": UPPER}


def a_box(label: str, index: int = 1) -> dict[str, Any]:
    """Return an answered box from 0, 0 to 2, 1."""
    corners = {"xmin": 0, "ymin": 0, "xmax": 2, "ymax": 1}
    kind = {"type": "boundingbox", "index": index, "label": label, "probability": 0.5}
    return kind | corners


def answered(*features: dict[str, Any], sample: int = 0, **objects: Any) -> Prediction:
    """Return an answer to a picture with one true object of class 1, named cat."""
    true = {
        "boxes": [[0.0, 0.0, 2.0, 1.0]],
        "classes": [1],
        "crowd": [0],
        "areas": [2.0],
        "size": [2, 2],
        "segmentations": [UPPER],
    }
    truth = {"objects": true | objects, "classes": [1], "labels": ["cat"]}
    return Prediction("r0", sample, sample, list(features), truth, {})


def judged(*predictions: Prediction) -> dict[str, Judgement]:
    return {each.outcome.name: each for each in shapes(predictions, ScoringContext())}


def test_true_shapes_without_masks_of_their_own_are_not_judged() -> None:
    outcome = judged(answered(a_mask("cat"), segmentations=[]))["mAP"].outcome
    assert (outcome.value, outcome.n, outcome.excluded) == (None, 0, 1)
    assert any("1 true shape has 0 known masks" in note for note in outcome.caveats)


def test_a_picture_of_unknown_size_has_that_of_its_masks() -> None:
    known = judged(answered(a_mask("cat"), size=[0, 0]))["mAP"].outcome
    assert known.value == pytest.approx(1.0)
    outline = [[0, 0, 2, 0, 2, 1, 0, 1]]
    unknown = judged(answered(a_mask("cat"), size=[0, 0], segmentations=[outline]))["mAP"].outcome
    assert unknown.value is None
    assert any("the picture's size is unknown" in note for note in unknown.caveats)


@pytest.mark.parametrize(
    ("label", "index", "value"),
    [("CAT", 9, 1.0), ("dog", 1, 0.0), ("", 1, 1.0), ("", 9, 0.0)],
    ids=["name", "another name", "number", "another number"],
)
def test_a_class_is_told_by_its_name_else_by_its_number(
    label: str, index: int, value: float
) -> None:
    outcome = judged(answered(a_box(label, index)))["mAP"].outcome
    assert outcome.value == pytest.approx(value)


def test_names_that_no_true_object_has_are_classes_of_their_own() -> None:
    # Neither stands for the cat, and neither hides that it was missed.
    outcome = judged(answered(a_box("dog"), a_box("bird")))["mAP50"].outcome
    assert outcome.value == 0.0
    found = judged(answered(a_box("dog"), a_box("bird"), a_box("cat")))["mAP50"].outcome
    assert found.value == pytest.approx(1.0)


def test_answers_that_were_too_long_to_be_stored_lose_their_own_picture() -> None:
    cut = answered({"left_out_features": 500}, sample=7)
    outcome = judged(answered(a_box("cat")), cut)["mAP"].outcome
    assert outcome.value == pytest.approx(1.0)
    assert outcome.excluded == 1
    assert any("sample 7: too many shapes" in note for note in outcome.caveats)


def test_pictures_without_true_objects_are_no_detection() -> None:
    plain = Prediction("r0", 0, 0, [a_box("cat")], {"classes": [1]}, {})
    assert judged(plain) == {}
