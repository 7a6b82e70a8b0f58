"""Outputs: five labels a sample from its first query; others of the session are compared."""

from typing import Any

from services.analyzer.tables.outputs import ANALYSIS, MOST_SAMPLES, TOP
from tests.services.analyzer.tables.reading import rows_of, table_of


def _labels(*names: str) -> list[dict[str, Any]]:
    return [{"label": name, "probability": 1 / (n + 2)} for n, name in enumerate(names)]


def test_a_right_label_is_right_and_without_labels_nothing_is() -> None:
    run = {"run": "r0", "outputs": [[0, 0, _labels("cat", "dog")], [1, 1, _labels("cup")]]}
    table = table_of(ANALYSIS, run, samples=[["a.jpg", ["cat"]], ["b.jpg", []]])
    told = [(row["name"], row["rank"], row["label"], row["is_correct"]) for row in rows_of(table)]
    assert told == [
        ("a.jpg", 1, "cat", True),
        ("a.jpg", 2, "dog", False),
        ("b.jpg", 1, "cup", None),
    ]
    assert table.verdict == "The first label is right for 1 of 1 labelled sample."


def test_the_first_query_of_a_sample_tells() -> None:
    run = {"run": "r0", "outputs": [[5, 0, _labels("late")], [1, 0, _labels("first")]]}
    assert [row["label"] for row in rows_of(table_of(ANALYSIS, run))] == ["first"]


def test_other_runs_of_a_session_are_compared() -> None:
    runs = [
        {"run": f"r{n}", "session": "s0", "outputs": [[0, 0, _labels(name)]]}
        for n, name in enumerate(("cat", "dog"))
    ]
    table = table_of(ANALYSIS, *runs)
    assert [row["run"] for row in rows_of(table)] == ["r0"]
    assert "r1: 1 of 1 first label differs" in table.caveats


def test_samples_and_labels_are_bounded_and_said_to_be() -> None:
    many = [[n, n, _labels(*"abcdefg")] for n in range(MOST_SAMPLES + 1)]
    table = table_of(ANALYSIS, {"run": "r0", "outputs": many})
    assert len(table.rows) == MOST_SAMPLES * TOP
    assert f"r0: {MOST_SAMPLES} of {MOST_SAMPLES + 1} samples are shown" in table.caveats


def test_the_same_samples_of_another_session_count_once() -> None:
    runs = [
        {"run": f"r{n}", "session": f"s{n}", "outputs": [[0, 0, _labels("cat")]]} for n in range(2)
    ]
    table = table_of(ANALYSIS, *runs, samples=[["a.jpg", ["dog"]]])
    assert len(table.rows) == 2
    assert table.verdict == "The first label is right for 0 of 1 labelled sample."


def test_random_weights_are_said_beside_what_they_answer() -> None:
    run = {"run": "r0", "outputs": [[0, 0, _labels("cat")]]}
    told = {
        "samples": [["a.jpg", ["dog"]]],
        "scoring_context": {"unscorable_reason": "the weights are random"},
    }
    assert table_of(ANALYSIS, run, **told).verdict.endswith("sample; the weights are random.")
