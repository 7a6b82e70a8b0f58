"""Counters that were asked for of kernels: sums, means by time, and what is read of many."""

from dataclasses import replace
from typing import Any

import pytest

from services.analyzer.frames.evaluation import Frames
from services.analyzer.tables import kernel_counters
from services.analyzer.tables.kernel_counters import ANALYSIS
from tests.services.analyzer.golden import frames_in
from tests.services.analyzer.tables.reading import rows_of, table_of
from tests.services.analyzer.tables.traced import counter_run, kernel_run, layer_run


def _frames(kernels: list[tuple[int | None, str, int]], *counters: list[Any]) -> Frames:
    """Return the frames of a replay; kernels are layer, name and ns, and numbered from 0."""
    placed = [(*kernel, *[None] * 7, number) for number, kernel in enumerate(kernels)]
    run = counter_run(*placed, layers=[[0, "conv1", "Conv"]], counters=list(counters))
    frames = frames_in({"runs": [run]})
    (measured,) = frames.measured
    layered = frames_in({"runs": [layer_run((0, "conv1", 5))]}).measured[0]
    return replace(frames, measured=(replace_kernels(measured, layered),))


def replace_kernels(run: Any, layered: Any) -> Any:
    """Return a run with another's layers, and its own kernels."""
    kernels = run.device_work
    found = replace(run, layers=layered.layers)
    found.__dict__["device_work"] = kernels
    return found


def test_sums_are_summed_and_rates_are_weighed_by_time() -> None:
    frames = _frames(
        [(0, "gemm", 30), (0, "gemm", 10)],
        *([0, "a.sum", 100.0], [1, "a.sum", 20.0]),
        *([0, "b.pct", 80.0], [1, "b.pct", 40.0]),
    )
    total, rate = rows_of(ANALYSIS.compute(frames))
    assert (total["metric"], total["layer_name"], total["kernels"]) == ("a.sum", "conv1", 2)
    assert (total["total"], total["min"], total["max"]) == (120.0, 20.0, 100.0)
    assert (rate["total"], rate["mean"]) == (None, pytest.approx(70.0))


def test_kernels_lie_in_the_layers_of_the_run_that_was_traced_beside() -> None:
    layers = [[0, "conv1", "Conv"], [1, "conv1/add_", "add_"]]
    traced = kernel_run((0, "gemm", 9), (1, "add", 2), (0, "add", 1), layers=layers)
    # What the replay's ranges say: none knows the operator between two modules.
    replay = counter_run(
        *((0, "gemm", 9, *[None] * 7, 0), (None, "add", 2, *[None] * 7, 1)),
        (None, "add", 1, *[None] * 7, 2),
        variant="counters",
        counters=[[0, "x.sum", 1.0], [1, "x.sum", 8.0], [2, "x.sum", 1.0]],
    )
    table = table_of(ANALYSIS, traced, layer_run((0, "conv1", 5), (1, "conv1/add_", 2)), replay)
    told = [(row["layer_name"], row["name"], row["total"]) for row in rows_of(table)]
    assert told == [("conv1", "gemm", 1.0), ("conv1/add_", "add", 8.0), ("conv1", "add", 1.0)]
    assert table.verdict.endswith("add in layer conv1/add_ has 80.0% of x.sum.")


def test_what_took_no_time_has_its_plain_mean() -> None:
    frames = _frames([(None, "k", 0), (None, "k", 0)], [0, "a.pct", 10.0], [1, "a.pct", 20.0])
    (row,) = rows_of(ANALYSIS.compute(frames))
    assert (row["mean"], row["layer"], row["layer_name"]) == (15.0, None, "(no layer)")


def test_who_has_most_of_the_first_is_said() -> None:
    frames = _frames([(0, "a", 1), (None, "b", 1)], [0, "x.sum", 1.0], [1, "x.sum", 3.0])
    told = ANALYSIS.compute(frames).verdict
    assert told == (
        "In h kernels have 1 further counter: x.sum; b in no known layer has 75.0% of x.sum."
    )


def test_without_any_it_is_said_how_to_ask() -> None:
    told = ANALYSIS.compute(_frames([(0, "a", 1)])).verdict
    assert "--collector ncu=metrics=A+B" in told


def test_more_than_are_read_is_a_caveat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_counters, "MOST_COUNTERS", 1)
    table = ANALYSIS.compute(_frames([(0, "a", 1)], [0, "x.sum", 1.0]))
    assert table.caveats[-1] == "h: only the first 1 counters were read"
