"""A run's rows: what counts as its latency, and its blocks without the time between them."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from services.analyzer.frames.devices import DEVICE_ATTRIBUTE_SCHEMA
from services.analyzer.frames.evaluation import Run, complete_queries, contiguous_ends_ns
from tests.services.analyzer.golden import frames_in


def _run(*queries: list[Any], **more: Any) -> Run:
    return frames_in({"runs": [{"run": "r0", "queries": list(queries), **more}]}).measured[0]


def test_latency_runs_from_due_time_in_an_open_loop_else_from_issue() -> None:
    open_loop = _run([0, 0, 1, 100, 130, 130, 200, 50, 0])
    closed = _run([0, 0, 1, None, 130, 130, 200, 50, 0])
    assert (open_loop.is_open_loop, open_loop.latency_ns.tolist()) == (True, [100])
    assert (closed.is_open_loop, closed.latency_ns.tolist()) == (False, [70])
    assert open_loop.service_ns.tolist() == [50]


def test_failed_queries_and_their_spans_do_not_count() -> None:
    queries = [[0, 0, 1, None, 0, 0, 10, None, 0], [1, 0, 1, None, 0, 0, 10, None, 2]]
    spans = [[n, None, 2, "predict", 0, 5 + n, 0, n, 0] for n in range(2)]
    run = _run(*queries, spans=spans)
    assert run.failed == 1
    assert run.operator_ns("predict").tolist() == [5]


def test_a_remote_load_s_blocks_are_its_stretches_of_as_many_queries() -> None:
    queries = [[n, 0, 1, n * 10, n * 10, 0, n * 10 + 10, None, int(n == 3)] for n in range(7)]
    remote = _run(*queries, pacing="remote", parameters={"queries": 2})
    assert remote.answered_blocks.tolist() == [0, 0, 1, 2, 2, 3]
    local = _run(*queries, pacing="local", parameters={"queries": 2})
    assert local.answered_blocks.tolist() == [0] * 6
    assert _run(*queries, pacing="remote").answered_blocks.tolist() == [0] * 6


def test_time_between_blocks_is_taken_out() -> None:
    first = [[n, 0, 1, None, n * 10, 0, n * 10 + 10, None, 0] for n in range(3)]
    second = [[3 + n, 1, 1, None, 1000 + n * 10, 0, 1010 + n * 10, None, 0] for n in range(2)]
    ends = contiguous_ends_ns(_run(*first, *second).answered)
    assert ends.tolist() == [10, 20, 30, 40, 50]


@given(gaps=st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_no_gap_between_blocks_changes_the_ends(gaps: list[int]) -> None:
    starts = np.cumsum([0, *gaps]) + np.arange(len(gaps) + 1) * 10
    queries = [
        [n, n, 1, None, int(start), 0, int(start) + 10, None, 0] for n, start in enumerate(starts)
    ]
    ends = contiguous_ends_ns(_run(*queries).answered)
    assert ends.tolist() == [10 * (n + 1) for n in range(len(queries))]


def test_spans_of_queries_that_were_not_read_to_their_end_do_not_count() -> None:
    roots = [[n, None, 1, "query", 10 * n, 10, 0, n, 0] for n in range(3)]
    inner = [[10 + n, None, 2, "predict", 10 * n + 1, 5, 0, n, 0] for n in range(3)]
    spans = _run([0, 0, 1, None, 0, 0, 9, None, 0], spans=sorted(roots + inner, key=lambda r: r[4]))
    assert complete_queries(spans.spans)["span"].to_list() == [0, 10, 1, 11]
    assert complete_queries(spans.spans.filter(spans.spans["level"] > 1)).height == 3
    assert complete_queries(spans.spans.head(0)).height == 0


def test_kernels_and_launches_of_a_run_know_their_place() -> None:
    layer = [1, None, 3, "conv1", 0, 50, 0, 0, 0, 4]
    launch = [2, None, 5, "cudaLaunchKernel", 5, 3, 0, -1, 0, None, 1, 9]
    kernel = [3, None, 5, "gemm", 60, 20, 7, -1, 0, None, 2, 9, 0, 7]
    lost = [4, None, 5, "gemm", 80, 20, 7, -1, 0, None, 2, 10, 0, 7]
    run = _run([0, 0, 1, None, 0, 0, 99, None, 0], spans=[layer, launch, kernel, lost])
    assert run.device_work.select("span", "layer", "query", "launch").rows() == [
        (3, 4, 0, 2),
        (4, None, -1, None),
    ]
    assert run.launches.select("span", "layer", "started").rows() == [(2, 4, 1)]
    assert run.unattributed_share == 0.5
    assert run.tree.filter(run.tree["span"] == 3)["parent"].item() == 1


def test_layers_that_a_source_names_are_found_by_name() -> None:
    kernel = [3, None, 6, "gemm", 60, 20, 7, -1, 0, None, 2, None, 0, 7]
    run = _run([5, 0, 1, None, 0, 0, 99, None, 0], spans=[kernel], layers=[[4, "conv1", "Conv"]])
    device_attributes = pl.DataFrame(
        [[3, None, None, 8.0, 1.0, 2.0, 50.0]], dict(DEVICE_ATTRIBUTE_SCHEMA), orient="row"
    )
    told = replace(run, device_attributes=device_attributes, named_layers={3: "conv1", 77: "gone"})
    assert told.device_work.select("layer", "query", "flops").rows() == [(4, 5, 8.0)]


def test_layers_that_name_no_query_belong_to_the_one_around_them() -> None:
    queries = [[n, 0, 1, None, 100 * n, 100 * n, 100 * n + 50, 50, 0] for n in range(2)]
    roots = [[n, None, 1, "query", 100 * n, 50, 0, n, 0] for n in range(2)]
    layers = [[10 + n, None, 3, "conv", 100 * n + 5, 10, 0, -1, 0, 0] for n in range(2)]
    outside = [20, None, 3, "conv", 900, 10, 0, -1, 0, 0]
    run = _run(*queries, level=3, spans=[*roots, *layers, outside])
    assert run.spans_at(3)["query"].to_list() == [0, 1]
