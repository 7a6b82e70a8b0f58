"""Optimal batch: doubling must bring more than 5%, in closed loops of one level."""

from typing import Any

import pytest

from services.analyzer.tables.optimal_batch import ANALYSIS, closed_loops
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.reading import MS, query, rows_of, table_of


def _run(size: int, rate: float, **more: Any) -> dict[str, Any]:
    ns = int(size / rate * 1e9)
    queries = [query(n, n * ns, (n + 1) * ns, size=size) for n in range(40)]
    return {"run": f"r{size}", "batch_size": size, "queries": queries, **more}


@pytest.mark.parametrize(("gain", "best"), [(1.04, 1), (1.06, 2)])
def test_the_rule_asks_for_five_percent(gain: float, best: int) -> None:
    rows = rows_of(table_of(ANALYSIS, _run(1, 100.0), _run(2, 100.0 * gain), _run(4, 50.0)))
    assert [row["batch_size"] for row in rows if row["is_optimal"]] == [best]
    assert rows[1]["gain"] == pytest.approx(gain - 1, rel=1e-3)


def test_open_loops_do_not_compete() -> None:
    queries = [query(n, n * MS, (n + 1) * MS, due=n * MS) for n in range(9)]
    open_loop = {"run": "r9", "batch_size": 8, "queries": queries}
    table = table_of(ANALYSIS, _run(1, 100.0), open_loop)
    (row,) = rows_of(table)
    assert (row["run"], row["is_optimal"]) == ("r1", None)
    assert table.verdict.startswith("Fewer than two batch sizes")


def test_a_deeper_run_stands_for_no_batch_size() -> None:
    table = table_of(ANALYSIS, _run(1, 100.0), _run(2, 150.0), _run(4, 500.0, level=3))
    assert [row["batch_size"] for row in rows_of(table)] == [1, 2]
    assert "batch 4: no completed run at the level of the others" in table.caveats


def test_agents_do_not_compare() -> None:
    runs = [_run(size, 100.0 * size, agent=agent) for agent in "ab" for size in (1, 2)]
    for number, run in enumerate(runs):
        run["run"] = f"r{number}"
    rows = rows_of(table_of(ANALYSIS, *runs))
    assert [(row["agent"], row["batch_size"]) for row in rows if row["is_optimal"]] == [
        ("a", 2),
        ("b", 2),
    ]


def test_latency_is_a_querys_and_said_beside_a_samples() -> None:
    (row,) = rows_of(table_of(ANALYSIS, _run(8, 100.0)))
    assert row["latency"] == pytest.approx(80 * MS)
    assert row["latency_per_sample"] == pytest.approx(10 * MS)


def test_latency_and_throughput_that_contradict_each_other_are_told() -> None:
    assert not any("overlapped" in each for each in table_of(ANALYSIS, _run(8, 100.0)).caveats)
    apart = [query(n, 3 * n * MS, (3 * n + 1) * MS) for n in range(40)]
    table = table_of(ANALYSIS, {"run": "r0", "queries": apart})
    (caveat,) = [each for each in table.caveats if "overlapped" in each]
    assert caveat.startswith("r0: batch size / latency is 1000 samples/s, but throughput 33")


def test_openings_replays_and_serialised_runs_are_no_batch_sizes() -> None:
    cold, replay = _run(2, 900.0, scenario="cold"), _run(4, 900.0, level=6)
    serialised = _run(8, 900.0, variant="serialised")
    runs = [_run(1, 100.0), cold, replay, serialised]
    assert [row["batch_size"] for row in rows_of(table_of(ANALYSIS, *runs))] == [1]
    (group,) = closed_loops(frames_in({"runs": runs})).values()
    assert [run.row.run for run in group] == ["r1"]
