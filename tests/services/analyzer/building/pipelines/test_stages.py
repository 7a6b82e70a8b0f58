"""Stages of queries that overlap: their times add up, and their busy shares are unions."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.analyzer.building.pipelines.stages import (
    POST_PROCESS,
    PREPARE,
    STAGES,
    Servers,
    busy_shares,
    has_overlapping_stages,
    stage_spans,
    stage_times,
    summed_shares,
    utilised_shares,
)
from services.analyzer.frames.evaluation import PREDICT, Run
from tests.services.analyzer.golden import frames_in

#: name, start, duration and thread of an operator
Step = tuple[str, int, int, int]


def run_of(*queries: list[Step], block: int = 0, **more: Any) -> Run:
    """Return a run of these queries, each from its first operator to the end of its last."""
    rows: list[list[Any]] = []
    spans: list[list[Any]] = []
    for number, steps in enumerate(queries):
        begin = min(start for _, start, _, _ in steps)
        end = max(start + spent for _, start, spent, _ in steps)
        rows.append([number, block, 1, None, begin, begin, end, end - begin, 0])
        for name, start, spent, thread in steps:
            spans.append([len(spans), None, 2, name, start, spent, thread, number, block, None])
    described = {"run": "r", "level": 2, "queries": rows, "spans": spans, **more}
    (run,) = frames_in({"runs": [described]}).measured
    return run


def stages_of(run: Run) -> list[tuple[str, int, int]]:
    return list(stage_spans(run).select("stage", "start_ns", "end_ns").sort("start_ns").iter_rows())


def test_operators_before_predict_prepare_and_those_after_it_post_process() -> None:
    run = run_of([("decode", 0, 10, 0), ("resize", 10, 5, 0), ("predict", 20, 30, 1)])
    assert stages_of(run) == [(PREPARE, 0, 10), (PREPARE, 10, 15), (PREDICT, 20, 50)]
    after = run_of([("predict", 20, 30, 1), ("topk", 50, 4, 1)])
    assert stages_of(after) == [(PREDICT, 20, 50), (POST_PROCESS, 50, 54)]


def test_a_copy_within_predict_is_part_of_it_and_no_stage() -> None:
    run = run_of([("predict", 20, 30, 1), ("copy", 25, 5, 1), ("topk", 49, 9, 1)])
    assert stages_of(run) == [(PREDICT, 20, 50)]


def test_queries_that_predict_nothing_have_no_stages() -> None:
    assert stages_of(run_of([("decode", 0, 10, 0)])) == []


@pytest.mark.parametrize(("second", "overlaps"), [(49, True), (50, False), (51, False)])
def test_queries_overlap_where_one_begins_before_another_ends(second: int, overlaps: bool) -> None:
    queries = [[("decode", begin, 10, 0), ("predict", begin + 10, 40, 1)] for begin in (0, second)]
    assert has_overlapping_stages(run_of(*queries)) is overlaps


def test_queries_whose_samples_were_prepared_ahead_have_no_stages_that_overlap() -> None:
    assert not has_overlapping_stages(run_of([("predict", 0, 50, 0)], [("predict", 10, 50, 0)]))


@st.composite
def pipelines(draw: st.DrawFn) -> Run:
    """Draw a run whose queries prepare, predict and post-process, with waits between."""
    queries: list[list[Step]] = []
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, 50))
        steps: list[Step] = []
        for name in ("decode", "resize", "predict", "topk"):
            at += draw(st.integers(0, 9))
            spent = draw(st.integers(1, 20))
            steps.append((name, at, spent, 0))
            at += spent
        queries.append(steps)
    return run_of(*queries)


@given(pipelines())
def test_stages_and_the_waits_before_them_add_up_to_the_query(run: Run) -> None:
    times = stage_times(run)
    for query, issued, ended in run.answered.select("query", "issued_ns", "ended_ns").iter_rows():
        own = times.filter(query=query)
        assert own.select(pl.col("spent_ns") + pl.col("waited_ns")).sum().item() == ended - issued
        assert own["stage"].to_list() == list(STAGES)


@given(pipelines(), st.sampled_from(STAGES))
def test_a_stage_is_busy_while_any_of_its_operators_runs(run: Run, stage: str) -> None:
    spans = stage_spans(run)
    began, ended = int(spans["start_ns"].min()), int(spans["end_ns"].max())  # type: ignore[arg-type]
    count = max(1, min(20, run.answered.height // 2))
    running = np.zeros(ended - began)
    for start, end in spans.filter(stage=stage).select("start_ns", "end_ns").iter_rows():
        running[start - began : end - began] += 1
    length = (ended - began) / count
    assert busy_shares(run, stage).sum() * length == pytest.approx((running > 0).sum())
    assert summed_shares(run, stage).sum() * length == pytest.approx(running.sum())


def test_stretches_of_a_run_have_their_own_shares() -> None:
    # Two stretches of 50 ns: the first with 10 + 10 of preparing, the second with none.
    queries = [
        [("decode", 0, 10, 0), ("predict", 20, 30, 1)],
        [("decode", 5, 10, 2), ("predict", 55, 20, 1)],
        [("predict", 75, 10, 1)],
        [("predict", 85, 15, 1)],
    ]
    run = run_of(*queries)
    assert busy_shares(run, PREPARE).tolist() == pytest.approx([15 / 50, 0])
    assert summed_shares(run, PREPARE).tolist() == pytest.approx([20 / 50, 0])
    assert busy_shares(run, PREDICT).tolist() == pytest.approx([30 / 50, 45 / 50])


def test_servers_share_the_summed_time_and_one_server_the_union() -> None:
    run = run_of(
        [("decode", 0, 40, 0), ("predict", 50, 50, 1)],
        [("decode", 0, 20, 2), ("predict", 50, 50, 1)],
    )
    assert utilised_shares(run, PREPARE, 2).tolist() == pytest.approx([0.3])
    assert utilised_shares(run, PREPARE, 1).tolist() == pytest.approx([0.4])
    # Overlapping calls of the one server that predicts are one.
    assert utilised_shares(run, PREDICT, 1).tolist() == pytest.approx([0.5])


@pytest.mark.parametrize(("busy_ns", "share"), [(0, 0.3), (90, 0.45), (30, 0.3)])
def test_what_processes_do_beside_their_steps_counts_as_preparing(
    busy_ns: int, share: float
) -> None:
    run = run_of(
        [("decode", 0, 40, 0), ("predict", 50, 50, 1)],
        [("decode", 0, 20, 2), ("predict", 50, 50, 1)],
        conditions={"prepare_busy_ns": busy_ns},
    )
    assert utilised_shares(run, PREPARE, 2).tolist() == pytest.approx([share])
    assert utilised_shares(run, PREDICT, 2).tolist() == pytest.approx([0.5])


@pytest.mark.parametrize(
    ("conditions", "servers"),
    [
        ({"prepare_processes": 3, "prepare_threads": 2}, Servers(3)),
        ({"prepare_threads": 2}, Servers(3, shared=3)),
        ({"prepare_threads": 0}, Servers(2, shared=2)),
        ({"options": {"decode": "device"}, "prepare_processes": 3}, Servers(1, shared=1)),
        ({"options": None}, Servers(2)),
    ],
)
def test_who_prepares_is_told_by_conditions_else_by_threads(
    conditions: dict[str, Any], servers: Servers
) -> None:
    steps = [("decode", 0, 9, 0), ("resize", 3, 9, 4), ("predict", 20, 9, 7)]
    run = run_of(steps, conditions=conditions)
    assert Servers.of(run) == servers
    assert Servers.of(run).is_device == (servers.shared == 1)


def test_a_stage_reaches_from_its_first_operator_to_its_last() -> None:
    steps = [("decode", 3, 10, 0), ("resize", 15, 5, 0), ("predict", 30, 5, 1)]
    again = [("predict", 40, 10, 1), ("topk", 50, 4, 1)]
    times = list(stage_times(run_of([*steps, *again])).iter_rows())
    # prepare from 3 to 20, predict from 30 to 50 in two calls, topk to 54.
    assert times == [(0, PREPARE, 17, 0), (0, PREDICT, 20, 10), (0, POST_PROCESS, 4, 0)]
