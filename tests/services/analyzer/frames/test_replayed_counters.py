"""Kernels with the counters of a replay."""

import pytest

from services.analyzer.frames.kernels import sums
from services.analyzer.frames.replayed_counters import with_counters
from tests.services.analyzer.frames.test_kernels import ROOF, a_replay, a_traced_run


def test_a_replay_that_knows_no_layers_is_joined_by_name_and_order() -> None:
    run = a_traced_run((0, "k", 10), (1, "k", 20), (1, "z", 5))
    replay = a_replay((None, "k", 1, 1.0, 1, 1, 1.0), (None, "k", 1, 2.0, 1, 1, 1.0))
    found = with_counters(run, [replay])
    by_layer = {row["layer"]: row for row in sums(found.kernels, ["layer"], ROOF)}
    assert (by_layer[0]["flops"], by_layer[1]["flops"]) == (1.0, 2.0)
    assert by_layer[1]["counted"] == pytest.approx(0.8)
    assert found.notes == (
        (
            "s: 3 of 9 kernels, 14.3% of their time, lack a counter: "
            "sums cover the kernels that have it"
        ),
    )


def test_kernels_that_only_the_replay_ran_are_told() -> None:
    found = with_counters(
        a_traced_run((0, "k", 10)),
        [a_replay((0, "k", 1, 1.0, 1, 1, 1.0), (3, "x", 1, 1.0, 1, 1, 1.0))],
    )
    assert found.has_counters
    assert found.notes == ("h: 1 of its counted kernels did not run in s",)
