"""Accuracy: k of n of opened models, each sample once; what is not to be had is said."""

from typing import Any

import pytest

from services.analyzer.tables.accuracy import ANALYSIS, FEW
from tests.services.analyzer.tables.reading import rows_of, table_of


def _answer(*labels: str, **truth: Any) -> dict[str, Any]:
    features = [
        {"type": "classification", "index": n, "label": label, "probability": 1 / (n + 2)}
        for n, label in enumerate(labels)
    ]
    return {"features": features, "truth": truth}


def _run(*answers: Any, name: str = "r0", **more: Any) -> dict[str, Any]:
    outputs = [[n, n, each] for n, each in enumerate(answers)]
    return {"run": name, "session": "s0", "outputs": outputs} | more


def _told(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows_of(table)]


def test_truths_that_came_with_answers_judge_them() -> None:
    table = table_of(ANALYSIS, _run(_answer("cat", labels=["cat"]), _answer("dog", labels=["cat"])))
    assert _told(table, "metric", "hits", "n", "kind") == [("top-1", 1, 2, "smoke check")]
    assert table.verdict.startswith(
        "Smoke check (2 samples, same build as the times): top-1 1 of 2"
    )


def test_a_sample_that_comes_again_counts_once_and_its_first_answer_holds() -> None:
    run = _run(_answer("cat", labels=["cat"]))
    run["outputs"] += [[7, 0, _answer("dog", labels=["cat"])]]
    table = table_of(ANALYSIS, run)
    assert _told(table, "hits", "n", "samples_differing") == [(1, 1, 1)]
    assert "s0: 1 sample got different answers when repeated, 1 of them" in str(table.caveats)


def test_runs_of_one_opened_model_are_put_together() -> None:
    same: dict[str, Any] = {"conditions": {"opened": "o1", "repeats_compared": 3}}
    first, second = _answer("cat", labels=["cat"]), _answer("dog", labels=["dog"])
    table = table_of(ANALYSIS, _run(first, **same), _run(first, second, name="r1", **same))
    columns = ("n", "runs", "repeats_compared", "samples_differing", "same_build")
    assert _told(table, *columns) == [(2, "r0, r1", 7, 0, True)]


def test_another_opening_of_the_model_is_judged_apart() -> None:
    runs = [
        _run(_answer("cat", labels=[right]), name=f"r{n}", conditions={"opened": f"o{n}"})
        for n, right in enumerate(("cat", "dog"))
    ]
    table = table_of(ANALYSIS, *runs)
    assert _told(table, "opened", "hits") == [("o0", 1), ("o1", 0)]
    assert table.verdict.endswith("; the table has 1 further session.")


def test_runs_of_different_builds_are_said_to_be() -> None:
    runs = [
        _run(_answer("cat", labels=["cat"]), name=f"r{n}", conditions={"threads": n})
        for n in range(2)
    ]
    table = table_of(ANALYSIS, *runs)
    assert _told(table, "same_build") == [(False,)]
    assert table.verdict.startswith("Smoke check (1 sample, different builds)")


def test_classes_are_compared_where_nobody_has_names() -> None:
    table = table_of(ANALYSIS, _run(_answer("", classes=[0]), _answer("", classes=[3])))
    ((hits, method),) = _told(table, "hits", "method")
    assert (hits, method.rpartition(", ")[2]) == (1, "by class number")


def test_one_of_a_label_s_names_is_enough_in_any_case() -> None:
    table = table_of(ANALYSIS, _run(_answer("tench, Tinca tinca", labels=["Tench"])))
    assert _told(table, "hits") == [(1,)]


def test_names_that_never_meet_are_doubted() -> None:
    table = table_of(ANALYSIS, _run(_answer("n01440764", labels=["tench"])))
    assert _told(table, "hits") == [(0,)]
    assert any("are the labels the same?" in caveat for caveat in table.caveats)


def test_top_5_needs_five() -> None:
    five = _answer(*"abcde", labels=["e"])
    table = table_of(ANALYSIS, _run(five))
    assert _told(table, "metric", "hits") == [("top-1", 0), ("top-5", 1)]
    assert len(table_of(ANALYSIS, _run(five, _answer(*"abcd", labels=["e"]))).rows) == 1


def test_random_weights_have_no_accuracy() -> None:
    table = table_of(
        ANALYSIS,
        _run(_answer("cat", labels=["cat"])),
        scoring_context={"unscorable_reason": "the weights are random"},
    )
    assert table.verdict == "Accuracy is not available: the weights are random."
    assert table.rows == ()


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([], "no answer was stored"),
        ([_answer("cat")], "the dataset has no ground truth for the answered samples"),
    ],
)
def test_without_truths_it_says_why(answers: list[Any], why: str) -> None:
    assert table_of(ANALYSIS, _run(*answers)).verdict == f"No accuracy: {why}."


def test_many_samples_are_more_than_a_smoke_check() -> None:
    table = table_of(ANALYSIS, _run(*[_answer("cat", labels=["cat"])] * FEW))
    assert _told(table, "kind") == [("accuracy",)]
    assert table.verdict.startswith(f"Accuracy ({FEW} samples")


def test_samples_that_were_not_reached_and_failed_queries_are_said() -> None:
    failed = [[9, 0, 1, None, 0, 0, 5, None, 1]]
    run = _run(_answer("cat", labels=["cat"]), queries=failed)
    caveats = table_of(ANALYSIS, run, scoring_context={"samples": 9}).caveats
    assert any("1 of the dataset's 9 samples was judged" in caveat for caveat in caveats)
    assert any("1 query failed" in caveat for caveat in caveats)


def test_labels_of_the_plan_judge_rows_without_truths() -> None:
    run = _run([{"label": "cat", "probability": 0.5}])
    table = table_of(ANALYSIS, run, samples=[["a.jpg", ["cat"]]])
    assert _told(table, "metric", "hits", "n") == [("top-1", 1, 1)]


def test_answers_that_make_no_sense_are_a_caveat() -> None:
    odd = {"features": [{"type": "classification", "index": 0}], "truth": {"classes": ["x"]}}
    table = table_of(ANALYSIS, _run(odd))
    assert table.rows == ()
    assert any("can't be judged" in caveat for caveat in table.caveats)


def test_a_class_that_the_model_has_not_costs_its_sample_alone() -> None:
    feature = {"type": "classification", "index": 0}
    told = [{"features": [feature], "truth": {"classes": [each]}} for each in (0, -1, 0)]
    table = table_of(ANALYSIS, _run(*told))
    assert _told(table, "metric", "hits", "n") == [("top-1", 2, 3)]
    assert any("does not know and counts as wrong" in caveat for caveat in table.caveats)


def test_an_odd_shape_keeps_its_metric_s_row() -> None:
    odd = {"features": [{"type": "boundingbox", "xmin": 1}], "truth": {"objects": {"boxes": []}}}
    table = table_of(ANALYSIS, _run(odd))
    assert _told(table, "metric", "value", "excluded") == [("mAP", None, 1)]
    assert any("shapes can't be read" in caveat for caveat in table.caveats)


def _failing(answered: int, failed: int, **more: Any) -> dict[str, Any]:
    queries = [[n, 0, 1, None, 0, 0, 5, 5, 0] for n in range(answered)]
    queries += [[answered + n, 0, 1, None, 0, 0, 5, None, 1] for n in range(failed)]
    answers = [_answer("cat", labels=["cat"])] * (answered - 1) + [_answer("x", labels=["cat"])]
    parameters = {"queries": answered + failed}
    return _run(*answers, queries=queries, parameters=parameters, **more)


def test_samples_that_failed_are_excluded_and_could_be_wrong() -> None:
    table = table_of(ANALYSIS, _failing(9, 1), scoring_context={"samples": 10})
    assert _told(table, "hits", "n", "excluded") == [(8, 9, 1)]
    assert "; 1 sample failed and is not counted; counted as wrong: top-1 8 of 10" in table.verdict


def test_a_sample_that_fails_again_and_again_is_one() -> None:
    table = table_of(ANALYSIS, _failing(2, 4), scoring_context={"samples": 3})
    # Six queries ask for samples 0 1 2 0 1 2: only the third has no answer.
    assert _told(table, "n", "excluded") == [(2, 1)]
    assert "counted as wrong: top-1 1 of 3" in table.verdict


def test_samples_of_an_unknown_load_that_failed_are_counted_by_query() -> None:
    table = table_of(ANALYSIS, _failing(3, 2, scenario="own"), scoring_context={"samples": 9})
    assert _told(table, "n", "excluded") == [(3, 2)]


def _in_part(failed: int, error: str) -> dict[str, Any]:
    """Return a run of three queries of four samples: the first was answered in part."""
    queries = [[n, 0, 4, None, 0, 0, 5, 5, 0, failed if n == 0 else None] for n in range(3)]
    answers = [_answer("cat", labels=["cat"])] * 10
    failures = [[0, error, 1, "0"]]
    more: dict[str, Any] = {"parameters": {"queries": 3}, "batch_size": 4, "failures": failures}
    return _run(*answers, queries=queries, **more)


def test_bad_samples_of_queries_answered_in_part_have_no_answer() -> None:
    run = _in_part(2, "sample 10: decode: torn; sample 11: decode: torn")
    table = table_of(ANALYSIS, run, scoring_context={"samples": 12})
    assert _told(table, "hits", "n", "excluded") == [(10, 10, 2)]
    assert "counted as wrong: top-1 10 of 12" in table.verdict
    assert any("and 2 samples of partly answered queries" in c for c in table.caveats)


def test_bad_samples_that_there_was_no_room_to_name_count_too() -> None:
    run = _in_part(2, "sample 10: decode: torn; 1 more failed")
    table = table_of(ANALYSIS, run, scoring_context={"samples": 12})
    assert _told(table, "n", "excluded") == [(10, 2)]


def test_an_answer_without_a_class_is_excluded_and_said() -> None:
    table = table_of(ANALYSIS, _run(_answer("cat", labels=["cat"]), _answer(labels=["cat"])))
    assert _told(table, "n", "excluded") == [(1, 1)]
    assert any("1 answer without a class is excluded" in each for each in table.caveats)
