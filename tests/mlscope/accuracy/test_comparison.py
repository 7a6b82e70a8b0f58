"""Two evaluations are compared by sample name, and what can't be compared is counted or refused."""

import math

import numpy as np
import pytest

from mlscope.accuracy import (
    NotANumber,
    NotProbabilities,
    ShapesDiffer,
    Unusable,
    compare_outputs,
    compare_probabilities,
    compare_top_k,
)
from mlscope.accuracy.divergence import correlation, kullback_leibler
from mlscope.statistics import wilson

FIRST = {"a": [0.7, 0.2, 0.1], "b": [0.1, 0.6, 0.3], "c": [0.2, 0.2, 0.6]}
SECOND = {"c": [0.3, 0.1, 0.6], "a": [0.6, 0.3, 0.1], "b": [0.1, 0.2, 0.7]}


def test_samples_are_paired_by_name_and_means_taken() -> None:
    found = compare_probabilities(FIRST, SECOND)
    pairs = [(np.array(FIRST[name]), np.array(SECOND[name])) for name in "abc"]
    wanted = [kullback_leibler(*pair) for pair in pairs]
    assert found.outcomes["KL"].value == pytest.approx(np.mean(wanted))
    assert [found.by_sample[name]["KL"] for name in "abc"] == pytest.approx(wanted)
    alike = [correlation(*pair) for pair in pairs]
    assert found.outcomes["correlation"].value == pytest.approx(np.mean(alike))  # type: ignore[arg-type]
    assert found.outcomes["max difference"].value == pytest.approx(0.4)
    assert found.outcomes["mean difference"].value == pytest.approx(0.4 / 3)


def test_agreement_is_a_share_with_an_interval() -> None:
    found = compare_probabilities(FIRST, SECOND).outcomes["top-1 agreement"]
    assert (found.value, found.n, found.interval) == (2 / 3, 3, wilson(2, 3))


def test_the_same_predictions_do_not_differ() -> None:
    for compare in (compare_probabilities, compare_outputs):
        outcomes = compare(FIRST, FIRST).outcomes
        assert outcomes["max difference"].value == outcomes["mean difference"].value == 0.0
        assert outcomes["correlation"].value == pytest.approx(1.0)
        assert outcomes["top-1 agreement"].value == 1.0
    for name in ("KL", "JS", "Hellinger", "Bhattacharyya"):
        assert compare_probabilities(FIRST, FIRST).outcomes[name].value == pytest.approx(
            0, abs=1e-9
        )


def test_samples_of_one_evaluation_are_counted_not_compared() -> None:
    found = compare_probabilities({"a": FIRST["a"], "x": [0.5, 0.5]}, SECOND)
    assert list(found.by_sample) == ["a"]
    for outcome in found.outcomes.values():
        assert outcome.n <= 1
        assert outcome.excluded == 3
        assert "3 samples are in one evaluation only" in outcome.caveats
    assert compare_outputs({"a": [1.0]}, {"b": [1.0]}).outcomes["max difference"].value is None


def test_infinite_and_undefined_values_are_counted_not_averaged() -> None:
    first, second = {"a": [0.5, 0.5], "b": [0.4, 0.6]}, {"a": [1.0, 0.0], "b": [0.6, 0.4]}
    found = compare_probabilities(first, second)
    assert found.by_sample["a"]["KL"] == math.inf
    divergence = found.outcomes["KL"]
    assert divergence.value == pytest.approx(0.2 * math.log(1.5))
    assert (divergence.n, divergence.excluded) == (1, 1)
    assert divergence.caveats == ("1 samples infinite or undefined, left out of the mean",)
    assert found.by_sample["a"]["correlation"] is None


def test_outputs_of_any_shape_and_unit() -> None:
    first = {"a": np.arange(12.0).reshape(3, 4)}
    found = compare_outputs(first, {"a": first["a"] * 2 - 3}).outcomes
    assert "top-1 agreement" not in found
    assert found["correlation"].value == pytest.approx(1.0)
    assert found["covariance"].value == pytest.approx(2 * np.var(np.arange(12), ddof=1))
    assert found["max difference"].value == 8.0


@pytest.mark.parametrize("compare", [compare_outputs, compare_probabilities])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_no_number_names_its_sample(compare: object, wrong: float) -> None:
    assert callable(compare)
    for broken in ((FIRST, SECOND | {"b": [wrong, 0, 0]}), (FIRST | {"b": [wrong, 0, 0]}, SECOND)):
        with pytest.raises(NotANumber) as raised:
            compare(*broken)
        assert raised.value.sample == "b"


def test_shapes_that_differ_name_their_sample() -> None:
    for second in ([0.5, 0.5], [[0.2, 0.2, 0.6]]):
        with pytest.raises(ShapesDiffer, match="sample c"):
            compare_probabilities(FIRST, SECOND | {"c": second})
    with pytest.raises(ShapesDiffer, match="sample c"):
        compare_probabilities({"c": [[1.0]]}, {"c": [[1.0]]})
    with pytest.raises(ShapesDiffer):
        compare_outputs({"a": []}, {"a": []})


@pytest.mark.parametrize("wrong", [[3.0, -2.0, 0.0], [0.5, 0.2, 0.1], [0.9, 0.2, 0.1]])
def test_logits_are_not_taken_for_probabilities(wrong: list[float]) -> None:
    with pytest.raises(NotProbabilities) as raised:
        compare_probabilities(FIRST, SECOND | {"b": wrong})
    assert raised.value.sample == "b"
    assert raised.value.total == pytest.approx(sum(wrong))


def test_sums_rounded_by_half_precision_are_scaled() -> None:
    rounded = {name: [0.996 * one for one in values] for name, values in FIRST.items()}
    assert compare_probabilities(FIRST, rounded).outcomes["KL"].value == pytest.approx(0, abs=1e-12)


def test_complete_lists_say_what_vectors_say() -> None:
    lists = [{name: dict(enumerate(row)) for name, row in side.items()} for side in (FIRST, SECOND)]
    whole, found = compare_probabilities(FIRST, SECOND).outcomes, compare_top_k(*lists).outcomes
    for name in ("KL", "JS", "Hellinger", "Bhattacharyya", "max difference", "top-1 agreement"):
        assert found[name].value == pytest.approx(whole[name].value)
    assert found["listed mass"].value == pytest.approx(1.0)
    assert found["KL"].caveats == ("lower bound: the lists leave out classes",)
    for name in ("correlation", "covariance", "mean difference"):
        assert (found[name].value, found[name].n) == (None, 0)
        assert "needs the probability of every class" in found[name].caveats[0]


def test_short_lists_show_the_mass_they_hold() -> None:
    found = compare_top_k({"a": {3: 0.6, 1: 0.2}}, {"a": {1: 0.7}}).outcomes
    assert found["listed mass"].value == pytest.approx(0.7)
    assert found["top-1 agreement"].value == 0.0
    assert found["max difference"].value == pytest.approx(0.5)


def test_lists_that_are_no_probabilities_are_refused() -> None:
    with pytest.raises(NotANumber) as raised:
        compare_top_k({"a": {1: math.nan}}, {"a": {1: 0.5}})
    assert raised.value.sample == "a"
    for wrong in ({1: -0.1}, {1: 0.9, 2: 0.2}):
        with pytest.raises(NotProbabilities):
            compare_top_k({"a": wrong}, {"a": {1: 0.5}})
    with pytest.raises(Unusable):
        compare_top_k({"a": {}}, {"a": {1: 0.5}})
    assert compare_top_k({"a": {1: 1.005}}, {"a": {1: 1.0}}).outcomes["KL"].value == 0.0
