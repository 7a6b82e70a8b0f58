"""Queries in which the core was lost do not count, at whatever level."""

import polars as pl

from benchmarks.leveled_truth import _undisturbed

CALLS = pl.DataFrame(
    {
        "block": [0, 0, 1],
        "query": [0, 1, 0],
        "start_ns": [100, 200, 300],
        "duration_ns": [50, 50, 50],
    }
)


def test_a_call_that_overlaps_a_loss_is_left_out() -> None:
    assert _undisturbed(CALLS, []).rows() == [(0, 0), (0, 1), (1, 0)]
    assert _undisturbed(CALLS, [(240, 260)]).rows() == [(0, 0), (1, 0)]
    assert _undisturbed(CALLS, [(150, 200), (0, 1000)]).rows() == []


def test_a_loss_between_calls_costs_none() -> None:
    assert _undisturbed(CALLS, [(150, 200), (350, 400)]).height == 3
