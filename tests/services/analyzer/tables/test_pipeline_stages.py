"""Stages of the pipeline: rates alone and together, the bottleneck, and who waits for whom."""

from typing import Any

import pytest

from services.analyzer.building.pipeline import busy_shares
from services.analyzer.tables.device_use import ANALYSIS as DEVICE_USE
from services.analyzer.tables.levels import ANALYSIS as LEVELS
from services.analyzer.tables.pipeline_stages import ANALYSIS, NO_OVERLAP, bottleneck_of
from services.analyzer.tables.tail import ANALYSIS as TAIL
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.reading import MS, rows_of, table_of
from tests.services.analyzer.tables.traced import kernel_run, model_run


def pipelined(
    prepare_ms: int, predict_ms: int, count: int = 40, blocks: int = 1, **more: Any
) -> dict[str, Any]:
    """Return a run with one batch prepared while the one before is predicted, 1 ms of topk each."""
    queries: list[list[Any]] = []
    spans: list[list[Any]] = []
    for block in range(blocks):
        origin = prepared = predicted = block * 100_000 * MS
        for number in range(count):
            query = block * count + number
            begun, prepared = prepared, prepared + prepare_ms * MS
            predicted = max(prepared, predicted) + predict_ms * MS
            stages = (
                ("decode", begun, prepare_ms * MS // 2),
                ("resize", begun + prepare_ms * MS // 2, prepare_ms * MS // 2),
                ("predict", predicted - predict_ms * MS, predict_ms * MS),
                ("topk", predicted, MS),
            )
            for name, start, spent in stages:
                spans.append([len(spans), None, 2, name, start, spent, 0, query, block, None])
            ended = predicted + MS
            queries.append([query, block, 1, None, origin, begun, ended, ended - begun, 0])
    run = {"run": "r", "level": 2, "scenario": "batched", "queries": queries, "spans": spans}
    return run | more


def stages_of(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a run's rows by stage."""
    return {row["stage"]: row for row in rows_of(table_of(ANALYSIS, run))}


def test_a_slow_preparation_is_the_bottleneck_and_bounds_the_rate() -> None:
    run = pipelined(10, 4)
    stages = stages_of(run)
    assert list(stages) == ["prepare", "predict", "post-process"]
    assert stages["prepare"]["busy_share"] == pytest.approx(0.99, abs=0.01)
    assert stages["predict"]["busy_share"] == pytest.approx(0.4, abs=0.01)
    assert stages["prepare"]["alone"] == pytest.approx(100, rel=0.01)
    assert stages["predict"]["alone"] == pytest.approx(250, rel=0.02)
    assert stages["post-process"]["alone"] == pytest.approx(1000, rel=0.02)
    assert {row["bound"] for row in stages.values()} == {stages["prepare"]["alone"]}
    assert stages["predict"]["of_bound"] == pytest.approx(0.99, abs=0.01)
    assert [row["is_bottleneck"] for row in stages.values()] == [True, False, False]
    verdict = table_of(ANALYSIS, run).verdict
    assert verdict.startswith("The bottleneck of r is prepare: 98.8 samples/s (")
    assert bottleneck_of(frames_in({"runs": [run]}).measured[0]) == "prepare"


def test_a_slow_model_is_waited_for() -> None:
    stages = stages_of(pipelined(2, 9, blocks=3))
    assert [row["is_bottleneck"] for row in stages.values()] == [False, True, False]
    assert stages["predict"]["alone"] == pytest.approx(1000 / 9, rel=0.02)
    assert stages["predict"]["waited"] > 100 * MS
    assert stages["post-process"]["waited"] == 0
    assert stages["prepare"]["spent"] == 2 * MS


def test_stages_whose_shares_overlap_are_not_told_apart() -> None:
    table = table_of(ANALYSIS, pipelined(8, 8))
    assert "which stage is the bottleneck of r: prepare or predict; " in table.verdict
    assert [row["is_bottleneck"] for row in rows_of(table)] == [None, None, False]


def test_samples_prepared_by_several_processes_are_one_stage() -> None:
    run = pipelined(10, 4)
    # Each sample is prepared twice over, on another thread, at the same time.
    twins = [[*span[:6], 7, *span[7:]] for span in run["spans"] if span[3] != "predict"]
    for number, span in enumerate(twins):
        span[0] = 10_000 + number
    both = stages_of(run | {"spans": run["spans"] + twins})
    assert both["prepare"]["alone"] == pytest.approx(100, rel=0.01)
    assert both["prepare"]["at_once"] == pytest.approx(2.0)


def test_one_query_at_a_time_has_no_stages_that_overlap() -> None:
    queries = [[n, 0, 1, None, n * 10, n * 10, n * 10 + 9, 9, 0] for n in range(9)]
    spans = [
        [2 * n + part, None, 2, name, n * 10 + 4 * part, 4, 0, n, 0, None]
        for n in range(9)
        for part, name in enumerate(("decode", "predict"))
    ]
    table = table_of(ANALYSIS, {"run": "r", "level": 2, "queries": queries, "spans": spans})
    assert (table.rows, table.verdict) == ((), NO_OVERLAP)


def test_copies_within_predict_are_part_of_it() -> None:
    run = pipelined(10, 4)
    copies = [
        [9000 + n, None, 2, "copy_in", span[4], MS, 0, span[7], 0, None]
        for n, span in enumerate(run["spans"])
        if span[3] == "predict"
    ]
    assert stages_of(run | {"spans": run["spans"] + copies}) == stages_of(run)


def test_time_is_divided_into_stretches_of_each_block() -> None:
    run = frames_in({"runs": [pipelined(10, 4, blocks=4)]}).measured[0]
    shares = busy_shares(run, "predict")
    assert len(shares) == 20
    assert all(0.3 < share < 0.5 for share in shares)


def test_levels_have_no_time_outside_operators_that_ran_side_by_side() -> None:
    table = table_of(LEVELS, pipelined(10, 4))
    parts = [row["part"] for row in rows_of(table)]
    assert "predict" in parts
    assert not {"operators", "outside operators"} & {*parts}
    assert any(caveat.endswith("see pipeline_stages") for caveat in table.caveats)


def test_a_slow_query_of_overlapping_ones_is_explained_by_its_stages() -> None:
    table = table_of(TAIL, pipelined(2, 9, count=100))
    rows = {row["part"]: row for row in rows_of(table)}
    assert rows["waiting for predict"]["kind"] == "wait"
    assert rows["predict"]["kind"] == "stage"
    assert "outside operators" not in rows
    whole = sum(row["slow"] for row in rows.values() if row["kind"] in ("wait", "stage"))
    assert whole == pytest.approx(rows["query"]["slow"])
    assert table.verdict.endswith("of it waiting for predict.")


def test_a_device_that_waits_for_prepared_samples_is_input_bound() -> None:
    for prepare_ms, bound in ((10, "input-bound"), (1, "host-bound")):
        model = model_run(**pipelined(prepare_ms, 4, scenario="online") | {"run": "m"})
        (row,) = rows_of(table_of(DEVICE_USE, model, kernel_run((0, "k", 5000, *[None] * 4))))
        assert row["bound"] == bound
