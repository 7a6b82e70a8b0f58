"""How far the answers of two logs are apart."""

import pytest

from mlscope.reproducing.difference import NOT_COMPARED, NOT_SAME, SAME, verdict_on_predictions
from mlscope.reproducing.differences import differences
from schemas.reference import ReferenceLog
from tests.mlscope.reproducing.reference_logs import a_log, a_prediction


def test_answers_that_differ_are_measured() -> None:
    now = a_log(a_prediction(0, 0.5), a_prediction(1, 0.75, label="dog"))
    (answers,) = [each for each in differences(a_log(), now) if each.aspect == "predictions"]
    assert answers.note == (
        "1 of 2 samples differ, numbers by at most 0.5, 1 with other labels or sizes"
    )
    assert not answers.is_same
    (fewer,) = [
        each
        for each in differences(a_log(), a_log(a_prediction(0, 0.5)))
        if each.aspect == "predictions"
    ]
    assert fewer.note.endswith("2 samples then, 1 now")


def without_digests(log: ReferenceLog) -> ReferenceLog:
    (run,) = log.runs
    bare = run.model_copy(update={"predictions_digest": ""})
    return log.model_copy(update={"runs": (bare,), "answers": ()})


@pytest.mark.parametrize("without", [(True, True), (True, False), (False, True)])
def test_runs_without_answers_are_not_called_the_same(without: tuple[bool, bool]) -> None:
    before, now = (without_digests(a_log()) if each else a_log() for each in without)
    found = differences(before, now)
    (answers,) = [each for each in found if each.aspect == "predictions"]
    assert answers.note.startswith("not compared: ")
    assert verdict_on_predictions(found) == NOT_COMPARED


def test_nothing_at_all_is_not_the_same() -> None:
    empty = a_log().model_copy(update={"runs": ()})
    assert verdict_on_predictions(differences(empty, empty)) == NOT_COMPARED
    assert verdict_on_predictions(differences(a_log(), a_log())) == SAME
    assert verdict_on_predictions(differences(a_log(), empty)) == NOT_SAME
    other = a_log(a_prediction(0, 0.5), a_prediction(1, 0.75))
    assert verdict_on_predictions(differences(a_log(), other)) == NOT_SAME


def test_one_run_of_two_without_answers_is_not_the_same() -> None:
    whole, bare = a_log(), without_digests(a_log())
    both = whole.model_copy(update={"runs": (*whole.runs, *bare.runs)})
    assert verdict_on_predictions(differences(both, both)) == NOT_COMPARED


def test_samples_beyond_the_kept_bound_are_said_not_to_be_compared() -> None:
    log = a_log()
    bound = log.model_copy(update={"request": log.request.model_copy(update={"outputs": 2})})
    (answers,) = [each for each in differences(bound, bound) if each.aspect == "predictions"]
    assert answers.note == (
        "identical, 2 samples; up to 3 more samples were answered, but not kept and not compared"
    )
