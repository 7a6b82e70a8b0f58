"""Two evaluations' answers: measured where they are alike, refused by name where they are not."""

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.analysis import Table
from services.analyzer.divergence import Side, compared
from services.analyzer.divergence.kinds import box_of, stored_count
from services.analyzer.divergence.numbers import distribution
from services.analyzer.errors import NotAlike
from services.analyzer.frames.predictions import Prediction


def _side(name: str, answers: Mapping[int, Any], raws: Mapping[int, Any] | None = None) -> Side:
    predictions = {
        sample: Prediction(
            "r0", sample, sample, features, name=f"{sample}.jpg", raw=_raw(sample, raws)
        )
        for sample, features in answers.items()
    }
    return Side(name, "r0", predictions)


def _raw(sample: int, raws: Mapping[int, Any] | None) -> dict[str, str]:
    if raws is None or sample not in raws:
        return {}
    return {"": base64.b64encode(np.asarray(raws[sample], "<f4").tobytes()).decode()}


def _classes(probabilities: Sequence[float], most: int = 99) -> list[dict[str, Any]]:
    order = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])
    return [
        {"type": "classification", "index": index, "probability": float(probabilities[index])}
        for index in order[:most]
    ]


def _rows(table: Table) -> dict[str, dict[str, Any]]:
    return {str(row["measure"]): row for row in table.records()}


def _measured(first: Side, second: Side) -> dict[str, Any]:
    return {name: row["value"] for name, row in _rows(compared(first, second)[0]).items()}


def _with_itself(*answers: Any) -> dict[str, Any]:
    """Return the measures of two sides with the same answers."""
    return _measured(_side("a", *answers), _side("b", *answers))


def _raw_feature(
    values: Sequence[float], shape: Sequence[int] | None = None
) -> list[dict[str, Any]]:
    return [{"type": "raw", "shape": list(shape or [len(values)]), "values": list(values)}]


def test_whole_distributions_have_every_measure() -> None:
    p, q = [0.7, 0.2, 0.1], [0.5, 0.3, 0.2]
    told = _measured(_side("a", {0: _classes(p)}), _side("b", {0: _classes(q)}))
    assert told["KL"] == pytest.approx(sum(x * np.log(x / y) for x, y in zip(p, q, strict=True)))
    assert told["max difference"] == pytest.approx(0.2)
    assert told["top-1 agreement"] == 1.0
    wanted = {"JS", "Hellinger", "Bhattacharyya", "correlation", "covariance", "mean difference"}
    assert wanted <= told.keys()


def test_lists_of_the_best_give_bounds_that_say_so() -> None:
    sides = [_side(n, {0: _classes([0.6, 0.3, 0.1], most=2)}) for n in "ab"]
    row = _rows(compared(*sides)[0])["KL"]
    assert row["value"] == pytest.approx(0.0, abs=1e-9)
    assert "lower bound" in row["note"]


def test_the_numbers_behind_a_list_tell_of_every_class() -> None:
    logits = np.array([[2.0, 1.0, -1.0, 0.5], [1.5, 1.2, -1.0, 0.5]])
    raised = np.exp(logits)
    p, q = raised / raised.sum(axis=1, keepdims=True)
    sides = [
        _side(name, {0: _classes(each, most=2)}, {0: row})
        for name, each, row in zip("ab", (p, q), logits, strict=True)
    ]
    told = _measured(*sides)
    assert told["KL"] == pytest.approx(float((p * np.log(p / q)).sum()), rel=1e-5)
    assert told["max difference before the steps"] == pytest.approx(0.5)
    assert told["correlation"] == pytest.approx(np.corrcoef(p, q)[0, 1], rel=1e-5)


def test_numbers_that_are_not_what_the_list_came_from_are_compared_as_numbers() -> None:
    sides = [_side(n, {0: _classes([0.6, 0.4])}, {0: [5.0, 9.0]}) for n in "ab"]
    told = _measured(*sides)
    assert "KL" not in told
    assert told["max difference"] == 0.0


def test_other_numbers_of_classes_are_compared_by_their_lists() -> None:
    sides = [
        _side("a", {0: _classes([0.6, 0.4], most=1)}, {0: [1.0, 2.0]}),
        _side("b", {0: _classes([0.6, 0.4], most=1)}, {0: [1.0, 2.0, 3.0]}),
    ]
    assert "lower bound" in _rows(compared(*sides)[0])["KL"]["note"]


def test_values_that_are_no_probabilities_are_compared_as_numbers() -> None:
    told = _measured(_side("a", {0: _classes([5.0, -1.0])}), _side("b", {0: _classes([3.0, 1.0])}))
    assert told["max difference"] == 2.0
    assert "KL" not in told


def test_lists_of_other_classes_without_probabilities_agree_or_not() -> None:
    one, other = _classes([9.0, 5.0, -1.0], most=2), _classes([-1.0, 5.0, 9.0], most=2)
    told = _measured(_side("a", {0: one}), _side("b", {0: other}))
    assert told == {"top-1 agreement": 0.0}


def test_tensors_are_compared_as_far_as_they_were_kept() -> None:
    cut = _raw_feature([1.0, 2.0], [500])
    row = _rows(compared(_side("a", {0: cut}), _side("b", {0: cut}))[0])
    assert row["mean difference"]["value"] == 0.0
    assert (
        row["mean difference"]["note"]
        == "only the first 2 of 500 values of each answer were stored"
    )
    assert "top-1 agreement" not in row


def test_each_sample_has_a_row_with_its_name() -> None:
    first = _side("a", {0: _classes([0.7, 0.3]), 4: _classes([0.9, 0.1])})
    second = _side("b", {4: _classes([0.1, 0.9]), 7: _classes([0.5, 0.5])})
    overall, samples = compared(first, second)
    columns = [column.name for column in samples.columns]
    ((row),) = [dict(zip(columns, each, strict=True)) for each in samples.rows]
    assert (row["sample"], row["name"], row["top-1_agreement"]) == (4, "4.jpg", 0.0)
    assert overall.verdict == "1 sample is in both. First answers agree for 0 of 1."
    assert _rows(overall)["KL"]["excluded"] == 2


def test_several_outputs_are_measured_each() -> None:
    features = [{**_raw_feature([1.0, 2.0])[0], "output": name} for name in ("boxes", "scores")]
    overall, _ = compared(_side("a", {0: features}), _side("b", {0: features}))
    assert {row[0] for row in overall.rows} == {"boxes", "scores"}


def _box(label: str, *corners: float) -> dict[str, Any]:
    sides = dict(zip(("xmin", "ymin", "xmax", "ymax"), corners, strict=True))
    return {"type": "boundingbox", "index": 1, "label": label, "probability": 0.5, **sides}


def test_boxes_texts_and_maps_have_measures_of_their_own() -> None:
    box = {0: [_box("cat", 0, 0, 9, 9)], 1: []}
    assert _with_itself(box)["matched shapes"] == 1.0
    assert _with_itself({0: [{"type": "text", "text": "hello"}]})["equal texts"] == 1.0
    segments = {"type": "semanticsegment", "size": [1, 2], "runs": [[0, 1], [3, 1]]}
    assert _with_itself({0: [segments]})["mIoU"] == 1.0


def test_a_mask_is_compared_by_the_box_around_it() -> None:
    # Pixels 5 and 6, column after column: rows 1 and 2 of column 1.
    mask = {"size": [4, 4], "counts": [5, 2, 9]}
    assert box_of({"mask": mask}) == (1.0, 1.0, 2.0, 3.0)
    assert box_of({"mask": {"size": [4, 4], "counts": [16]}}) == (0.0, 0.0, 0.0, 0.0)
    shape = {"type": "instancesegment", "index": 1, "probability": 0.5, "mask": mask}
    assert _with_itself({0: [shape]})["overlap of matched"] == 1.0


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({}, {0: _classes([1.0])}, "stored no answer"),
        ({0: _classes([1.0])}, {1: _classes([1.0])}, "no sample in common"),
        (
            {0: _classes([1.0])},
            {0: _raw_feature([1.0])},
            "one gives classification, the other raw",
        ),
        ({0: _raw_feature([1.0])}, {0: _raw_feature([1.0, 2.0])}, "[1] against [2]"),
        ({0: _raw_feature([math.nan])}, {0: _raw_feature([1.0])}, "not a (finite) number"),
        ({0: [{"type": "image"}]}, {0: [{"type": "image"}]}, "there is no measure"),
        (
            {0: [{**_classes([1.0])[0], "output": "a"}]},
            {0: [{**_classes([1.0])[0], "output": "b"}]},
            "different names",
        ),
        (
            {0: [{"type": "semanticsegment", "size": [1, 1], "left_out": {"runs": 9}}]},
            {0: [{"type": "semanticsegment", "size": [1, 1], "runs": [[0, 1]]}]},
            "too large to be stored",
        ),
    ],
    ids=["empty", "samples", "kinds", "shapes", "nan", "image", "outputs", "left out"],
)
def test_what_is_not_alike_is_refused_by_name(first: Any, second: Any, why: str) -> None:
    with pytest.raises(NotAlike) as raised:
        compared(_side("a", first), _side("b", second))
    assert why in str(raised.value)


@pytest.mark.parametrize(
    "feature",
    [
        {"type": "semanticsegment", "size": [1, 10**11], "runs": [[1, 10**11]]},
        {"type": "semanticsegment", "size": [2, 2], "runs": [[1, 10**11]]},
        {
            "type": "instancesegment",
            "index": 1,
            "probability": 0.5,
            "mask": {"size": [10**6, 10**6], "counts": [0, 10**12]},
        },
    ],
    ids=["map", "run", "mask"],
)
def test_an_answer_that_claims_a_huge_picture_is_refused_undecoded(feature: Any) -> None:
    with pytest.raises(NotAlike, match="pixels"):
        compared(*(_side(n, {0: [feature]}) for n in "ab"))


def _softmax(values: Sequence[float]) -> list[float]:
    raised = np.exp(np.array(values) - max(values))
    return [float(value) for value in raised / raised.sum()]


def _distribution(values: Sequence[float], listed: Sequence[float], most: int = 2) -> Any:
    """Return the probabilities behind the `most` largest that are listed, of raw `values`."""
    prediction = Prediction("r0", 0, 0, _classes(listed, most))
    return distribution(np.array(values, np.float64), prediction)


@given(st.lists(st.floats(-8, 8), min_size=2, max_size=9))
def test_logits_stand_behind_the_largest_of_their_softmax(logits: list[float]) -> None:
    probabilities = _softmax(logits)
    assert _distribution(logits, probabilities).tolist() == pytest.approx(probabilities, abs=2e-3)
    assert _distribution(probabilities, probabilities).tolist() == probabilities


@pytest.mark.parametrize(
    ("values", "listed"),
    [
        ([1.0, 2.0], [0.5, 0.5]),
        ([-1.0, 2.0], [0.0, 1.0]),
        ([0.2, 0.3], [0.2, 0.8]),
        ([0.1, 0.9], [0.0, 0.1, 0.9]),
    ],
    ids=["another softmax", "not above 0", "not one", "more classes than numbers"],
)
def test_numbers_that_a_list_did_not_come_from_are_no_distribution(
    values: list[float], listed: list[float]
) -> None:
    assert _distribution(values, listed) is None


@pytest.mark.parametrize("off", [0.0009, -0.0009])
def test_a_sum_near_one_is_one(off: float) -> None:
    values = [0.25, 0.75 + off]
    assert _distribution(values, values).tolist() == values


def test_as_many_values_of_a_tensor_count_as_both_stored() -> None:
    long, short = ({"shape": [2, 3], "values": [1.0] * count} for count in (6, 4))
    assert stored_count("", long, short) == stored_count("", short, long) == (4, 6)
    assert stored_count("", long, long) == (6, 6)
    with pytest.raises(NotAlike, match="output o: the values were too large to be stored"):
        stored_count("o", long, {"shape": [2, 3]})
    with pytest.raises(NotAlike, match=r"\[2, 3\] against \[6\]"):
        stored_count("", long, {"shape": [6], "values": [1.0]})


def test_boxes_of_shapes_and_masks_have_the_same_corners() -> None:
    assert box_of({"xmin": 1, "ymin": 2, "xmax": 4, "ymax": 5}) == (1.0, 2.0, 4.0, 5.0)
    # A picture of 6 rows and 5 columns, column by column: rows 2 to 4 of the columns 1 to 3.
    counts = [6 + 2, 3, 3, 3, 3, 3, 1 + 6]
    assert box_of({"mask": {"size": [6, 5], "counts": counts}}) == (1.0, 2.0, 4.0, 5.0)
    assert box_of({"mask": {"size": [6, 5], "counts": [30]}}) == (0.0, 0.0, 0.0, 0.0)


def test_whole_tensors_agree_on_their_largest_value_and_have_no_note() -> None:
    sides = [_side(n, {0: _raw_feature([1.0, 9.0, 2.0])}) for n in "ab"]
    rows = _rows(compared(*sides)[0])
    assert (rows["top-1 agreement"]["value"], rows["max difference"]["note"]) == (1.0, "")
    # Of values of which one side kept two, the first two are compared.
    longer = _raw_feature([1.0, 9.5, 7.0], [3])
    kept = _raw_feature([1.0, 9.0], [3])
    cut = _rows(compared(_side("a", {0: longer}), _side("b", {0: kept}))[0])
    assert cut["max difference"]["value"] == 0.5
    assert cut["max difference"]["note"].startswith("only the first 2 of 3 values")


def test_samples_of_cut_tensors_have_no_agreement_either() -> None:
    cut = {0: _raw_feature([1.0, 2.0], [500])}
    _, samples = compared(_side("a", cut), _side("b", cut))
    assert "max_difference" in [column.name for column in samples.columns]
    assert "top-1_agreement" not in [column.name for column in samples.columns]


@pytest.mark.parametrize(("other", "agreement"), [([-9.0, -5.0, -1.0], 1.0), ([-1, -9, -5], 0.0)])
def test_scores_below_zero_agree_by_the_largest(other: list[float], agreement: float) -> None:
    one = _classes([-8.0, -7.0, -2.0], most=2)
    sides = _side("a", {0: one}), _side("b", {0: _classes(other, most=1)})
    assert _measured(*sides) == {"top-1 agreement": agreement}


def test_one_map_that_was_too_large_is_enough_to_refuse_all() -> None:
    known = {"type": "semanticsegment", "size": [1, 1], "runs": [[0, 1]]}
    unknown = {"type": "semanticsegment", "size": [1, 1], "left_out": {"runs": 9}}
    whole, torn = _side("a", {0: [known], 1: [known]}), _side("b", {0: [known], 1: [unknown]})
    for sides in ((whole, torn), (torn, whole)):
        with pytest.raises(NotAlike, match="too large to be stored"):
            compared(*sides)


LOGITS = {0: [2.0, 1.0, -1.0], 1: [0.5, 0.1, 0.0]}
LISTS = {sample: _classes(_softmax(values), most=2) for sample, values in LOGITS.items()}


@pytest.mark.parametrize("lacking", [{0: LOGITS[0]}, {}, None], ids=["one", "all", "none stored"])
def test_numbers_that_one_side_lacks_are_not_compared(lacking: Any) -> None:
    sides = _side("a", LISTS, LOGITS), _side("b", LISTS, lacking)
    for pair in (sides, sides[::-1]):
        rows = _rows(compared(*pair)[0])
        assert "max difference before the steps" not in rows
        assert "lower bound" in rows["KL"]["note"]


def test_distributions_are_compared_only_where_every_sample_has_one() -> None:
    odd = LOGITS | {1: [9.0, -9.0, 3.0]}
    rows = _rows(compared(_side("a", LISTS, LOGITS), _side("b", LISTS, odd))[0])
    assert "KL" not in rows
    assert rows["max difference"]["value"] == pytest.approx(9.1)
    whole = _with_itself(LISTS, LOGITS)
    assert (whole["KL"], whole["max difference before the steps"]) == (0.0, 0.0)
