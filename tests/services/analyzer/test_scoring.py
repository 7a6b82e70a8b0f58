"""Each kind of answer is judged by its own metrics; what cannot be judged is left out and said."""

from base64 import b64encode
from typing import Any

import pytest

from mlscope.accuracy import Outcome
from schemas.manifest import Step, step_of
from services.analyzer.frames.evaluation import ScoringContext
from services.analyzer.frames.predictions import Prediction
from services.analyzer.scoring import Judgement, judge

AIM = ScoringContext()
CROP = Step(operator="crop", parameters={"dimensions": [4, 4]})


def _steps(*told: Any) -> tuple[Step, ...]:
    return tuple(Step.model_validate(step_of(each)) for each in told)


def _answer(features: Any, sample: int = 0, judged: Any = None, **truth: Any) -> Prediction:
    return Prediction("r0", sample, sample, features, truth, judged or {})


def _told(answers: list[Prediction], scoring_context: ScoringContext = AIM) -> dict[str, Judgement]:
    return {each.outcome.name: each for each in judge(answers, scoring_context)}


def _outcome(name: str, *answers: Prediction, context: ScoringContext = AIM) -> Outcome:
    """Return the metric `name` of `answers`."""
    return _told([*answers], context)[name].outcome


def _stepped(*steps: Any) -> ScoringContext:
    """Return the context of a model whose pictures go through `steps`."""
    return ScoringContext(geometry_steps=_steps(*steps))


def _box(corners: list[float], label: str = "cat", score: float = 0.9) -> dict[str, Any]:
    sides = dict(zip(("xmin", "ymin", "xmax", "ymax"), corners, strict=True))
    return {"type": "boundingbox", "index": 7, "label": label, "probability": score, **sides}


def _objects(*boxes: list[float], classes: Any = None, size: Any = (100, 200)) -> dict[str, Any]:
    return {
        "boxes": list(boxes),
        "classes": classes or [17] * len(boxes),
        "crowd": [0] * len(boxes),
        "areas": [box[2] * box[3] for box in boxes],
        "size": list(size),
    }


CAT: dict[str, Any] = {"classes": [17], "labels": ["cat"]}
TRUE = _objects([10.0, 20.0, 40.0, 40.0])


def test_boxes_are_judged_by_class_name_in_the_file_s_own_numbers() -> None:
    told = _told([_answer([_box([10, 20, 50, 60])], objects=TRUE, **CAT)])
    assert told["mAP"].outcome.value == pytest.approx(1.0)
    assert (told["mAP"].counts, told["mAP"].outcome.n) == ("true shapes", 1)
    dog = _told([_answer([_box([10, 20, 50, 60], "dog")], objects=TRUE, **CAT)])
    assert dog["mAP"].outcome.value == 0.0


def test_without_names_the_class_numbers_are_compared() -> None:
    objects = _objects([10.0, 20.0, 40.0, 40.0], classes=[7])
    told = _told([_answer([_box([10, 20, 50, 60], "")], objects=objects)])
    assert told["mAP"].outcome.value == pytest.approx(1.0)


def test_boxes_as_shares_of_a_picture_become_its_pixels() -> None:
    told = _told([_answer([_box([0.05, 0.2, 0.25, 0.6])], objects=TRUE, **CAT)])
    assert told["mAP"].outcome.value == pytest.approx(1.0)


def test_boxes_in_a_resized_picture_become_its_own_pixels() -> None:
    answer = _answer([_box([20, 60, 100, 180])], objects=TRUE, **CAT)
    resized = _stepped({"resize": {"dimensions": [300, 400]}})
    assert _outcome("mAP", answer, context=resized).value == pytest.approx(1.0)
    assert _outcome("mAP", answer).value == pytest.approx(0.0)


def _boxed(corners: list[float], *steps: Any, size: Any = (100, 200)) -> Outcome:
    objects = _objects([10.0, 20.0, 40.0, 40.0], size=size)
    answer = _answer([_box(corners)], objects=objects, **CAT)
    return _outcome("mAP", answer, context=_stepped(*steps))


FIT = {"resize": {"dimensions": [100, 100], "keep_aspect_ratio": True, "fit": "inside"}}


@pytest.mark.parametrize(
    ("steps", "corners"),
    [
        # 100 x 200 becomes 50 x 100, with 25 above.
        ((FIT, {"pad": {"dimensions": [100, 100]}}), [5, 35, 25, 55]),
        ((FIT, {"pad": {"dimensions": [100, 100]}}), [0.05, 0.35, 0.25, 0.55]),
        ((FIT,), [5, 10, 25, 30]),
        # The left and right 50 are cut off: the box, 10 to 50, is just beyond.
        (({"crop": {"dimensions": [100, 100]}},), [-40, 20, 0, 60]),
        # Twice as large, with 28 above and 24 at the left.
        (({"resize": {"max_dimension": 400}}, {"pad": {"multiple": 64}}), [44, 68, 124, 148]),
    ],
    ids=["letter box", "shares", "fitted", "cut", "padded"],
)
def test_boxes_of_a_framed_picture_are_placed_back(steps: Any, corners: list[float]) -> None:
    assert _boxed(corners, *steps).value == pytest.approx(1.0)
    assert _boxed([each + 15 for each in corners], *steps).value != pytest.approx(1.0)


@pytest.mark.parametrize(
    ("scoring_context", "size", "why"),
    [
        (
            ScoringContext(geometry_steps=None),
            (100, 200),
            "the part of the picture that the model saw is unknown",
        ),
        (ScoringContext(geometry_steps=(CROP,)), (0, 0), "the picture's size is unknown"),
    ],
)
def test_boxes_that_cannot_be_placed_say_why(
    scoring_context: ScoringContext, size: Any, why: str
) -> None:
    good = _objects([10.0, 20.0, 40.0, 40.0], size=size)
    answer = _answer([_box([1, 2, 3, 4])], 5, objects=good, **CAT)
    outcome = _outcome("mAP", answer, context=scoring_context)
    assert (outcome.value, outcome.excluded) == (None, 1)
    assert "1 sample could not be judged, first: sample 5: " in outcome.caveats[0]
    assert why in outcome.caveats[0]


def test_a_picture_in_which_nothing_was_found_counts_as_missed() -> None:
    answers = [
        _answer([_box([10, 20, 50, 60])], objects=TRUE, **CAT),
        _answer([], 1, objects=TRUE, **CAT),
    ]
    told = _told(answers)["mAP50"]
    assert (told.judged, told.outcome.n) == (2, 2)
    assert told.outcome.value == pytest.approx(0.5, abs=0.01)
    assert told.outcome.interval is not None


def _mask(counts: Any) -> dict[str, Any]:
    mask = {"size": [2, 2], "counts": counts}
    return {"type": "instancesegment", "index": 1, "label": "", "probability": 0.5, "mask": mask}


def _true(*segmentations: Any, size: Any = (2, 2)) -> dict[str, Any]:
    boxes = [[0.0, 0.0, 2.0, 1.0]] * len(segmentations)
    objects = _objects(*boxes, classes=[1] * len(segmentations), size=size)
    return objects | {"segmentations": list(segmentations)}


UPPER = {"size": [2, 2], "counts": [0, 1, 1, 1, 1]}
"""The upper row of two."""


@pytest.mark.parametrize("outline", [[[0, 0, 2, 0, 2, 1, 0, 1]], [[0, 0, 1, 0, 1, 1, 0, 1]] * 2])
def test_polygons_are_drawn_and_judged_as_masks(outline: Any) -> None:
    whole, half = _true(outline), len(outline) == 2
    found = [0, 1, 3] if half else [0, 1, 1, 1, 1]
    for mask, value in ((found, 1.0), ([3, 1], 0.0)):
        answer = _answer([_mask(mask)], objects=whole)
        assert _outcome("mAP", answer).value == pytest.approx(value)


@pytest.mark.parametrize(("counts", "value"), [(UPPER["counts"], 1.0), ([4], 0.0)])
def test_boxes_and_masks_of_one_answer_are_each_judged(counts: Any, value: float) -> None:
    box = _box([0, 0, 2, 1]) | {"index": 1}
    told = _told([_answer([box, _mask(counts)], objects=_true(UPPER))])
    assert told["mAP"].outcome.value == pytest.approx(1.0)
    assert told["mask mAP"].outcome.value == pytest.approx(value)
    assert {"mAP", "mask mAP50", "mask AR100"} <= set(told)


def test_masks_beside_boxes_are_not_judged_where_none_are_true() -> None:
    box = _box([0, 0, 2, 1]) | {"index": 1}
    told = _told([_answer([box, _mask([4])], objects={**_true(UPPER), "segmentations": []})])
    assert not any(name.startswith("mask") for name in told)
    assert told["mAP"].outcome.value == pytest.approx(1.0)


def test_a_picture_in_which_no_mask_is_found_counts_as_misses() -> None:
    nothing = _answer([], 0, objects=_true(UPPER))
    found = _answer([_mask(UPPER["counts"])], 1, objects=_true(UPPER))
    told = _told([nothing, found])["mAP50"]
    assert (told.judged, told.outcome.n, told.outcome.excluded) == (2, 2, 0)
    assert told.outcome.value == pytest.approx(0.5, abs=0.01)


def _fourfold() -> dict[str, Any]:
    """Return the upper half of a picture of 4 x 4."""
    return _true({"size": [4, 4], "counts": [0, 2, 2, 2, 2, 2, 2, 2, 2]}, size=(4, 4))


def test_masks_of_a_resized_picture_become_its_own_pixels() -> None:
    answer = _answer([_mask(UPPER["counts"])], objects=_fourfold())
    resized = _stepped({"resize": {"dimensions": [2, 2]}})
    assert _outcome("mAP", answer, context=resized).value == pytest.approx(1.0)
    for unknown in (ScoringContext(geometry_steps=None), ScoringContext(is_coded=True)):
        assert _outcome("mAP", answer, context=unknown).value is None


def test_masks_know_nothing_of_what_was_cut_off() -> None:
    mask = {"size": [2, 2], "counts": [0, 4]}
    corner = _true({"size": [4, 4], "counts": [0, 2, 2, 2, 10]}, size=(4, 4))
    corner["boxes"], corner["areas"] = [[0.0, 0.0, 2.0, 2.0]], [4.0]
    crop = {"crop": {"dimensions": [2, 2], "method": "top_left"}}
    answer = _answer([{**_mask([]), "mask": mask}], objects=corner)
    assert _outcome("mAP", answer, context=_stepped(crop)).value == pytest.approx(1.0)


def test_masks_of_a_padded_picture_lose_its_border() -> None:
    # The picture's upper half is the second of the input's four rows: columns of 0100.
    mask = {"size": [4, 4], "counts": [1, 1, 3, 1, 3, 1, 3, 1, 2]}
    wide = _true({"size": [2, 4], "counts": [0, *[1] * 8]}, size=(2, 4))
    answer = _answer([{**_mask([]), "mask": mask}], objects=wide)
    padded = _stepped({"pad": {"dimensions": [4, 4]}})
    assert _outcome("mAP", answer, context=padded).value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("found", "true"),
    [
        ([0, 1, 1, 1, 1], {"size": [2, 2], "counts": [9]}),
        ([9], UPPER),
        ([0, 1, 1, 1, 1], {"size": [3, 3], "counts": [9]}),
        ([0, 1, 1, 1, 1], [[1, 2]]),
        ([0, 1, 1, 1, 1], None),
        ("~", UPPER),
    ],
    ids=["true runs", "found runs", "size", "no outline", "nothing", "compressed"],
)
def test_one_odd_mask_is_one_picture_not_judged(found: Any, true: Any) -> None:
    good = _answer([_mask(UPPER["counts"])], objects=_true(UPPER))
    odd = _answer([_mask(found)], 1, objects=_true(UPPER, true))
    told = _told([good, odd])["mAP"]
    assert (told.judged, told.outcome.excluded) == (1, 1)
    assert told.outcome.value == pytest.approx(1.0)
    assert any(each.startswith("1 sample could not") for each in told.outcome.caveats)


def test_maps_are_judged_by_the_pixels_that_were_counted() -> None:
    feature = [{"type": "semanticsegment"}]
    answers = [
        _answer(feature, 0, {"pixels": {"counts": [[0, 0, 3], [1, 0, 1]], "ignored": 2}}),
        _answer(feature, 1, {"error": "torn"}),
    ]
    told = _told(answers)
    assert told["mIoU"].outcome.value == pytest.approx((3 / 4 + 0) / 2)
    assert told["pixel accuracy"].outcome.value == pytest.approx(3 / 4)
    assert "1 sample could not be judged, first: torn" in told["mIoU"].outcome.caveats


def test_maps_that_were_stretched_are_said() -> None:
    counts = {"counts": [[0, 0, 3]], "ignored": 0}
    feature = [{"type": "semanticsegment"}]
    both = [
        _answer(feature, 0, {"pixels": counts}),
        _answer(feature, 1, {"pixels": {**counts, "resized": [2, 2]}}),
    ]
    told, plain = _outcome("mIoU", *both), _outcome("mIoU", *both[:1])
    assert told.method.endswith("maps stretched to the label's size")
    assert "stretched" not in plain.method
    assert any(each.startswith("1 map resized to the size of the label") for each in told.caveats)


def test_what_was_cut_off_a_picture_is_said() -> None:
    feature = [{"type": "semanticsegment"}]
    pixels = {"counts": [[0, 0, 3]], "ignored": 0, "unseen": 1}
    told = _outcome("mIoU", _answer(feature, 0, {"pixels": pixels}))
    assert told.value == 1.0
    assert any("a part of 1 picture: 25.0% of all" in each for each in told.caveats)


def test_pictures_too_small_for_one_metric_count_for_the_other() -> None:
    pictures = [
        {"psnr": 20.0, "ssim": None, "no_ssim": "shortest side is 8", "equal": False},
        {"psnr": 30.0, "ssim": 0.5, "equal": False},
    ]
    answers = [_answer([{"type": "image"}], n, {"picture": p}) for n, p in enumerate(pictures)]
    told = _told([*answers, _answer([{"type": "image"}], 2, {"error": "sizes differ"})])
    assert (told["PSNR"].outcome.value, told["PSNR"].judged) == (25.0, 2)
    assert (told["SSIM"].outcome.value, told["SSIM"].judged) == (0.5, 1)
    assert "first: sizes differ" in told["PSNR"].outcome.caveats[0]
    assert "2 samples could not be judged" in told["SSIM"].outcome.caveats[0]


def test_pictures_are_judged_by_what_was_computed() -> None:
    feature = [{"type": "image"}]
    answers = [
        _answer(feature, n, {"picture": {"psnr": psnr, "ssim": 0.5, "equal": psnr is None}})
        for n, psnr in enumerate((20.0, 30.0, None))
    ]
    told = _told(answers)
    assert (told["PSNR"].outcome.value, told["PSNR"].unit) == (25.0, "dB")
    assert told["PSNR"].outcome.excluded == 1
    assert told["SSIM"].outcome.value == 0.5


def _text(said: str, *right: str, sample: int = 0) -> Prediction:
    return _answer([{"type": "text", "text": said}], sample, texts=list(right))


def test_transcripts_are_judged_by_errors() -> None:
    told = _told([_text("a cat sat", "the cat sat")])
    assert told["word error rate"].outcome.value == pytest.approx(1 / 3)
    assert told["character error rate"].outcome.value == pytest.approx(3 / 11)
    assert "exact match" not in told


def test_labels_of_files_are_their_texts() -> None:
    said = [{"type": "text", "text": "helo"}]
    told = _told([_answer(said, labels=["hello"])])
    assert told["character error rate"].outcome.value == pytest.approx(1 / 5)


QUESTIONS = ScoringContext(task="question answering")


def test_answers_to_questions_are_judged_as_such() -> None:
    told = _told([_text("The cat", "cat", "dog"), _text("", sample=1)], QUESTIONS)
    assert told["exact match"].outcome.value == 1.0
    assert told["F1"].outcome.value == 1.0


def test_an_answer_to_a_question_without_one_is_wrong() -> None:
    told = _told([_text("something", sample=1)], QUESTIONS)
    assert (told["exact match"].outcome.value, told["F1"].outcome.value) == (0.0, 0.0)


def test_one_number_against_yes_or_no_is_an_area() -> None:
    answers = [
        _answer([{"type": "raw", "values": [score]}], n, values=[label])
        for n, (score, label) in enumerate([(0.9, 1.0), (0.8, 1.0), (0.2, 0.0), (0.85, 0.0)])
    ]
    assert _told(answers)["AUC"].outcome.value == pytest.approx(0.75)


def test_what_no_metric_fits_has_none() -> None:
    assert judge([_answer([{"type": "raw", "values": [1.0, 2.0]}], values=[1.0])], AIM) == []
    assert judge([_answer([{"strange": 1}], labels=["cat"])], AIM) == []
    assert judge([], AIM) == []


@pytest.mark.parametrize("counts", [[[0, 10**6, 1]], [[-1, 0, 1]]], ids=["many", "negative"])
def test_a_map_of_classes_that_cannot_be_is_left_out_alone(counts: Any) -> None:
    feature = [{"type": "semanticsegment"}]
    odd = _answer(feature, 0, {"pixels": {"counts": counts, "ignored": 0}})
    good = _answer(feature, 1, {"pixels": {"counts": [[0, 0, 3]], "ignored": 0}})
    told = _told([odd, good])["mIoU"]
    assert (told.outcome.value, told.judged) == (1.0, 1)
    assert "a class of a map" in told.outcome.caveats[-1]
    assert _outcome("mIoU", odd).value is None


def test_an_odd_box_is_one_picture_not_judged() -> None:
    odd = [{key: value for key, value in _box([1, 2, 3, 4]).items() if key != "probability"}]
    answers = [
        _answer([_box([10, 20, 50, 60])], objects=TRUE, **CAT),
        _answer(odd, 1, objects=TRUE, **CAT),
    ]
    told = _told(answers)["mAP"]
    assert told.judged == 1
    assert told.outcome.value == pytest.approx(1.0)


@pytest.mark.parametrize("label", [-1, 3], ids=["negative", "beyond"])
def test_a_true_class_that_the_model_has_not_is_answered_wrongly(label: int) -> None:
    scores = {"": b64encode(bytes(4 * 3)).decode()}
    feature = {"type": "classification", "index": 2, "probability": 1.0}
    known = Prediction("r0", 0, 6, [feature], {"classes": [2]}, raw=scores)
    odd = Prediction("r0", 0, 7, [feature], {"classes": [label]}, raw=scores)
    (plain,), (told,) = judge([known], AIM), judge([known, odd], AIM)
    assert (plain.outcome.value, plain.outcome.n, plain.outcome.caveats) == (1.0, 1, ())
    assert (told.outcome.value, told.outcome.n, told.judged) == (0.5, 2, 2)
    (caveat,) = told.outcome.caveats
    assert caveat.startswith("1 sample has a class that the model does not know and counts as")
    assert f"sample 7 is labelled {label}, allowed is 0 to 2" in caveat


def test_one_known_class_of_several_that_are_right_is_enough() -> None:
    scores = {"": b64encode(bytes(4 * 3)).decode()}
    feature = {"type": "classification", "index": 2, "probability": 1.0}
    known = Prediction("r0", 0, 6, [feature], {"classes": [2, 8]}, raw=scores)
    (told,) = judge([known], AIM)
    assert (told.outcome.value, told.outcome.caveats) == (1.0, ())
