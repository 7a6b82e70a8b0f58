"""Kernels as frames: identity, counters of a replay, sums that do not hide what is unknown."""

import polars as pl
import pytest

from services.analyzer.building.roofs.ceilings import Ceilings
from services.analyzer.frames.evaluation import Run
from services.analyzer.frames.kernels import answered_work, kernels_of, point_of, sums
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.traced import Work, counter_run, kernel_run

ROOF = Ceilings(peak=100.0, bandwidth=10.0, kind="measured")


def a_traced_run(*kernels: Work, **more: object) -> Run:
    """Return a run with these kernels."""
    return frames_in({"runs": [kernel_run(*kernels, **more)]}).measured[0]  # type: ignore[arg-type]


def a_replay(*kernels: Work) -> Run:
    """Return a run with these kernels and their counters."""
    return frames_in({"runs": [counter_run(*kernels)]}).measured[0]


def test_copies_and_sets_are_device_work_and_no_kernels() -> None:
    run = a_traced_run(
        (0, "k", 10),
        (0, "copy", 20, None, None, None, None, 3),
        (None, "set", 5, None, None, None, None, 4),
    )
    assert answered_work(run).height == 9
    assert kernels_of(run)["name"].unique().to_list() == ["k"]
    assert sums(kernels_of(run), [], ROOF)[0]["time"] == 10.0


def test_kernels_of_failed_queries_do_not_count() -> None:
    run = kernel_run((0, "k", 10))
    run["queries"][1][-1] = 1
    (found,) = sums(kernels_of(frames_in({"runs": [run]}).measured[0]), ["name"], ROOF)
    assert found["queries"] == 2


def test_a_run_without_device_rows_has_no_kernels() -> None:
    run = a_traced_run()
    assert answered_work(run).height == 0
    assert sums(kernels_of(run), ["name"], ROOF) == []
    assert run.unattributed_share == 0.0


def test_throughput_is_over_the_counted_time_alone() -> None:
    run = a_traced_run((0, "a", 100, 500.0, 10, 10, 1.0), (0, "b", 100))
    (row,) = sums(kernels_of(run), ["layer"], ROOF)
    assert (row["time"], row["counted"], row["flops"]) == (200.0, 0.5, 500.0)
    assert row["throughput"] == pytest.approx(500.0 / 100e-9)
    assert row["intensity"] == 25.0


def test_one_unknown_counter_leaves_the_others_known() -> None:
    (row,) = sums(kernels_of(a_traced_run((0, "k", 10, 500.0, None, 3, None))), ["layer"], ROOF)
    assert (row["flops"], row["dram_read_bytes"], row["dram_write_bytes"]) == (500.0, None, 3.0)
    assert (row["intensity"], row["memory_bound"], row["occupancy"]) == (None, None, None)


@pytest.mark.parametrize(
    ("flops", "moved", "intensity", "bound"),
    [
        (0.0, (5.0, 5.0), 0.0, True),
        (0.0, (0.0, 0.0), None, None),
        (7.0, (0.0, 0.0), None, False),
        (7.0, (None, 1.0), None, None),
        (None, (1.0, 1.0), None, None),
        (100.0, (5.0, 5.0), 10.0, False),
    ],
    ids=["zero FLOP", "nothing", "no bytes", "reads unknown", "FLOP unknown", "at the ridge"],
)
def test_points_at_the_edges(
    flops: float | None,
    moved: tuple[float | None, float | None],
    intensity: float | None,
    bound: bool | None,
) -> None:
    point = point_of(flops, moved, 10.0, ROOF)
    assert (point["intensity"], point["memory_bound"]) == (intensity, bound)


def test_the_share_without_layer_is_of_time() -> None:
    assert a_traced_run((0, "k", 30), (None, "k", 10)).unattributed_share == 0.25


def test_a_query_without_a_group_took_none_of_it() -> None:
    rows = kernel_run((0, "k", 30, 6.0), (1, "z", 90))
    rows["kernels"] = [row for row in rows["kernels"] if row[0] == 0 or row[1] == 0]
    rows["kernels"] += [[n, 2, "y", n * 20_000 + 9, 60] for n in (0, 1)]
    kernels = kernels_of(frames_in({"runs": [rows]}).measured[0])
    by_layer = {row["layer"]: row for row in sums(kernels, ["layer"], ROOF)}
    assert (by_layer[1]["time"], by_layer[1]["queries"]) == (0.0, 3)
    assert by_layer[1]["calls"] == pytest.approx(1 / 3)
    assert (by_layer[1]["flops"], by_layer[0]["flops"]) == (None, 6.0)
    assert by_layer[2]["time"] == 60.0


def test_kernels_are_told_apart_by_the_order_of_their_launches() -> None:
    made = kernel_run((0, "k", 10), (0, "k", 20), count=1)
    run = frames_in({"runs": [made]}).measured[0]
    # The first to start, on another stream, was launched last.
    launched = pl.when(pl.col("duration_ns") == 10).then(-1).otherwise(-2).cast(pl.Int64)
    run.__dict__["device_work"] = run.device_work.with_columns(launched.alias("launch_ns"))
    assert answered_work(run).select("duration_ns", "nth").rows() == [(20, 0), (10, 1)]
