"""A run's rows: what counts as its latency, and its blocks without the time between them."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from services.analyzer.frames import Run, contiguous_ends_ns
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
