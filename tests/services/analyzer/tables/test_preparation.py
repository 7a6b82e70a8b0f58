"""What preparation costs: ahead from its own block, streamed from the queries."""

from typing import Any

import pytest

from services.analyzer.tables.preparation import ANALYSIS
from tests.services.analyzer.tables.reading import MS, query, rows_of, table_of


def untimed(number: int, parent: int | None, level: int, name: str, duration: int) -> list[Any]:
    """Return the row of a span before the clock."""
    return [number, parent, level, name, number, duration, 0, -1, -1, None]


def ahead(*durations: int, **more: Any) -> dict[str, Any]:
    """Return a run that prepared one sample a batch, in `durations`, half of them in decode."""
    spans = []
    for number, duration in enumerate(durations):
        root = 10 * number
        spans.append(untimed(root, None, 1, "prepare", duration))
        spans.append(untimed(root + 1, root, 2, "decode", duration // 2))
        spans.append(untimed(root + 2, root, 2, "resize", duration // 4))
    run = {"run": "r", "level": 2, "conditions": {"samples": "ahead"}, "spans": spans}
    return run | {"queries": [query(0, 0, MS)]} | more


def test_batches_prepared_ahead_are_measured_by_their_own_spans() -> None:
    table = table_of(ANALYSIS, ahead(4 * MS, 4 * MS, 4 * MS))
    total, decode, *others = rows_of(table)
    assert (total["step"], total["time"], total["samples_per_s"]) == ("all", 4 * MS, 250.0)
    assert (decode["step"], decode["share"], decode["batches"]) == ("decode", 0.5, 3)
    assert [(row["step"], row["share"]) for row in others] == [("resize", 0.25), ("rest", 0.25)]
    assert table.verdict == (
        "In r samples are prepared ahead of the clock: one process prepares 250 samples/s "
        "(250 … 250); the slowest step is decode, 50.0% of the time."
    )
    assert table.caveats == ()


def test_times_are_those_of_one_sample() -> None:
    (total, *_), (half, *_) = (
        rows_of(table_of(ANALYSIS, ahead(4 * MS, 5 * MS, 5 * MS, 4 * MS, batch_size=size)))
        for size in (1, 2)
    )
    assert half["time"] == total["time"] / 2 == 2.25 * MS
    assert half["samples_per_s_low"] < half["samples_per_s"] < half["samples_per_s_high"]


def test_one_batch_has_no_interval() -> None:
    table = table_of(ANALYSIS, ahead(4 * MS))
    total = rows_of(table)[0]
    assert (total["time_low"], total["samples_per_s_high"]) == (None, None)
    assert (
        "one process prepares 250 samples/s (no interval); the intervals do not tell"
        in table.verdict
    )


@pytest.mark.parametrize("conditions", [{"samples": "streamed"}, {}])
def test_streamed_samples_are_measured_in_their_queries(conditions: dict[str, str]) -> None:
    spans = [
        [0, None, 1, "query", 0, 9, 0, 0, 0, None],
        [1, 0, 2, "decode", 0, 2 * MS, 0, 0, 0, None],
        [2, 0, 2, "predict", 5, MS, 0, 0, 0, None],
        [3, 0, 2, "topk", 6, 4 * MS, 0, 0, 0, None],
    ]
    run = {"run": "r", "level": 2, "spans": spans, "queries": [query(0, 0, MS)]}
    table = table_of(ANALYSIS, run | {"conditions": conditions})
    parts = [(row["part"], row["step"], row["time"]) for row in rows_of(table)]
    assert parts == [
        ("before", "steps", 2 * MS),
        ("before", "decode", 2 * MS),
        ("after", "all", 4 * MS),
        ("after", "topk", 4 * MS),
    ]
    assert {row["prepared"] for row in rows_of(table)} == {conditions.get("samples", "")}
    # Reading is not in it: it is no rate of preparing samples as a whole.
    assert "In r samples are prepared while it runs: the steps alone" in table.verdict
    assert table.caveats[-1].startswith("r: its steps ran beside the model, and may have waited")


def test_the_verdict_is_about_a_run_whose_steps_ran_alone() -> None:
    spans = [
        [1, 0, 2, "decode", 0, 2 * MS, 0, 0, 0, None],
        [2, 0, 2, "predict", 5, MS, 0, 0, 0, None],
    ]
    streamed = {"run": "s", "level": 2, "spans": spans, "queries": [query(0, 0, MS)]}
    assert table_of(ANALYSIS, streamed, ahead(MS)).verdict.startswith("In r samples are")


def test_a_run_that_traced_no_step_has_no_row() -> None:
    table = table_of(ANALYSIS, {"run": "r", "queries": [query(0, 0, MS)]})
    assert (table.rows, table.verdict) == ((), "No preparation of samples was traced.")


def test_a_model_without_steps_has_no_row() -> None:
    spans = [untimed(0, None, 1, "prepare", MS), untimed(1, None, 1, "answer", MS)]
    assert table_of(ANALYSIS, ahead(spans=spans)).rows == ()


def streamed(run: str, *steps: tuple[str, int, int]) -> dict[str, Any]:
    """Return a run of one query that predicts at 10 MS: name, start and duration of other steps."""
    spans = [[9, 0, 2, "predict", 10 * MS, MS, 0, 0, 0, None]]
    for number, (name, start, spent) in enumerate(steps):
        spans.append([number, 0, 2, name, start, spent, 0, 0, 0, None])
    conditions = {"samples": "streamed"}
    queries = [query(0, 0, 20 * MS)]
    return {"run": run, "level": 2, "spans": spans, "queries": queries, "conditions": conditions}


def test_streamed_steps_add_up_and_the_slowest_comes_first() -> None:
    run = streamed("s", ("decode", 0, 2 * MS), ("resize", 3 * MS, 6 * MS))
    rows = [(row["step"], row["time"], row["share"]) for row in rows_of(table_of(ANALYSIS, run))]
    assert rows == [
        ("steps", 8 * MS, 1.0),
        ("resize", 6 * MS, 0.75),
        ("decode", 2 * MS, 0.25),
    ]


def test_a_step_that_a_query_has_twice_is_one_step() -> None:
    run = streamed("s", ("decode", 0, 2 * MS), ("resize", 3 * MS, MS), ("decode", 5 * MS, 2 * MS))
    steps = {row["step"]: row["time"] for row in rows_of(table_of(ANALYSIS, run))}
    assert steps == {"steps": 5 * MS, "decode": 4 * MS, "resize": MS}


def test_the_verdict_is_of_the_first_run_where_none_prepared_ahead() -> None:
    runs = [streamed(name, ("decode", 0, spent * MS)) for name, spent in (("a", 4), ("b", 2))]
    table = table_of(ANALYSIS, *runs)
    assert table.verdict.startswith(
        "In a samples are prepared while it runs: the steps alone, in one process, prepare 250 "
    )
    assert [caveat.partition(":")[0] for caveat in table.caveats[-2:]] == ["a", "b"]


def test_answers_of_batches_prepared_ahead_are_the_part_after() -> None:
    run = ahead(4 * MS, 4 * MS)
    for number in range(2):
        root = 100 + 10 * number
        run["spans"].append(untimed(root, None, 1, "answer", 9 * MS))
        run["spans"].append(untimed(root + 1, root, 2, "softmax", MS))
        run["spans"].append(untimed(root + 2, root, 2, "topk", 2 * MS))
        run["spans"].append(untimed(root + 3, root, 2, "predict", 6 * MS))
    after = [row for row in rows_of(table_of(ANALYSIS, run)) if row["part"] == "after"]
    # An answer's time has its predict in it, which is no post-processing.
    assert [(row["step"], row["time"], row["batches"]) for row in after] == [
        ("all", 3 * MS, 2),
        ("topk", 2 * MS, 2),
        ("softmax", MS, 2),
    ]


def test_what_lies_between_the_steps_is_no_step_that_is_the_slowest() -> None:
    run = ahead(8 * MS, 8 * MS, 8 * MS)
    for span in run["spans"]:
        if span[3] == "decode":
            span[5] = 2 * MS
        if span[3] == "resize":
            span[5] = MS
    table = table_of(ANALYSIS, run)
    assert [row["step"] for row in rows_of(table)] == ["all", "rest", "decode", "resize"]
    assert table.verdict.endswith("; the slowest step is decode, 25.0% of the time.")
