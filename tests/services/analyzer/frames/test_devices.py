"""Device work of a run: charged to layers by launch, by graph node, by order, or to nothing."""

from typing import Any

import polars as pl
import pytest

from schemas.batch import SpanKind
from services.analyzer.correlation import correlated
from services.analyzer.correlation.graphs import aligned
from services.analyzer.frames.devices import (
    DEVICE_ATTRIBUTE_SCHEMA,
    DEVICE_WORK_SCHEMA,
    counted_in,
    device_work_of,
    eager_of,
    launches_of,
    no_device_attributes,
    replayed_share,
    unattributed_share,
)
from services.analyzer.frames.row_schemas import SPAN_SCHEMA

_LAYERS: list[dict[str, Any]] = [
    {"span": 1, "level": 2, "start_ns": 0, "duration_ns": 100, "query": 3, "name": "predict"},
    {"span": 2, "level": 3, "start_ns": 0, "duration_ns": 40, "query": 3, "layer": 0},
    {"span": 3, "level": 3, "start_ns": 50, "duration_ns": 40, "query": 3, "layer": 1},
]


def _launch(span: int, at: int, correlation: int) -> dict[str, Any]:
    return _row(span, SpanKind.LAUNCH, at, correlation) | {"name": "cudaLaunchKernel", "thread": 0}


def _kernel(span: int, at: int, correlation: int, name: str = "gemm") -> dict[str, Any]:
    return _row(span, SpanKind.KERNEL, at, correlation) | {"name": name, "stream": 7, "device": 0}


def _row(span: int, kind: SpanKind, at: int, correlation: int) -> dict[str, Any]:
    told = {"span": span, "level": 5, "start_ns": at, "duration_ns": 4, "query": -1, "block": 1}
    return told | {"kind": int(kind), "correlation": correlation}


def _kernels(
    rows: list[dict[str, Any]], device_attributes: pl.DataFrame | None = None, **more: Any
) -> pl.DataFrame:
    tree = correlated(_frame(rows))
    found = no_device_attributes() if device_attributes is None else device_attributes
    return device_work_of(tree, found, more.get("layers", {}), more.get("eager"))


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    filled = [{"thread": 0, "kind": 0, "block": 0} | row for row in rows]
    return pl.DataFrame(filled, schema=dict(SPAN_SCHEMA), orient="row")


def _device_attributes(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict(DEVICE_ATTRIBUTE_SCHEMA), orient="row")


def test_kernels_have_layer_query_and_launch() -> None:
    rows = [*_LAYERS, _launch(4, 55, 9), _kernel(5, 300, 9), _launch(6, 45, 8), _kernel(7, 400, 8)]
    found = _kernels(rows)
    assert dict(found.schema) == dict(DEVICE_WORK_SCHEMA)
    first, second = found.to_dicts()
    assert (first["layer"], first["query"], first["launch"], first["launch_ns"]) == (1, 3, 4, 55)
    assert (first["block"], first["stream"], first["method"]) == (1, 7, "launch")
    assert (second["layer"], second["query"]) == (None, 3)


def test_launches_say_how_much_they_started() -> None:
    rows = [*_LAYERS, _launch(4, 5, 9), _kernel(5, 300, 9), _kernel(6, 310, 9), _launch(7, 60, 8)]
    found = launches_of(correlated(_frame(rows)))
    told = found.select("span", "layer", "query", "started").rows()
    assert told == [(4, 0, 3, 2), (7, 1, 3, 0)]


def test_time_in_no_layer_is_unattributed_launched_or_not() -> None:
    rows = [*_LAYERS, _launch(4, 5, 9), _kernel(5, 300, 9), _kernel(6, 310, 77), _kernel(7, 320, 9)]
    assert unattributed_share(_kernels(rows)) == pytest.approx(1 / 3)
    outside = [
        *_LAYERS,
        _launch(4, 55, 9),
        _kernel(5, 300, 9),
        _launch(6, 45, 8),
        _kernel(7, 400, 8),
    ]
    assert unattributed_share(_kernels(outside)) == 0.5
    assert unattributed_share(_kernels(_LAYERS)) == 0.0


def test_a_graphs_kernels_have_the_layers_of_their_nodes() -> None:
    graph = [_launch(8, 95, 5), _kernel(9, 500, 5), _kernel(10, 510, 5), _kernel(11, 520, 5)]
    rows = [*_LAYERS, _launch(4, 5, 9), _kernel(5, 300, 9), _launch(6, 60, 8), *graph]
    device_attributes = _device_attributes(
        {"span": 5, "graph_node": 70},
        {"span": 6, "graph_node": 71},
        {"span": 9, "graph_node": 71},
        {"span": 10, "graph_node": 70},
        {"span": 11, "graph_node": 72},
    )
    found = _kernels(rows, device_attributes).filter(pl.col("method") == "graph")
    assert found["layer"].to_list() == [1, 0, None]


def test_without_nodes_a_replay_is_aligned_with_an_eager_query() -> None:
    names = ("conv", "norm", "relu")
    calls = [_launch(10 + n, 5 + 20 * n, n) for n in range(3)]
    eager = eager_of(
        _kernels([*_LAYERS, *calls, *(_kernel(20 + n, 300 + n, n, names[n]) for n in range(3))])
    )
    assert eager is not None
    assert eager.rows() == [("conv", 0), ("norm", 0), ("relu", None)]
    replay = [_kernel(20 + n, 300 + 9 * n, 5, name) for n, name in enumerate(("conv", "x", "norm"))]
    found = _kernels([_LAYERS[0], _launch(4, 5, 5), *replay], eager=eager)
    assert found["layer"].to_list() == [0, None, 0]


def test_a_query_s_second_graph_goes_on_where_the_first_ended() -> None:
    blocks = pl.DataFrame({"name": ["gemm", "relu"] * 2, "layer": [0, 1, 2, 3]})
    replays = [
        _kernel(20 + 2 * graph + n, 300 + 20 * graph + n, 5 + graph, name)
        for graph in range(2)
        for n, name in enumerate(("gemm", "relu"))
    ]
    # The launch that came second has the lower span.
    found = _kernels([_LAYERS[0], _launch(8, 5, 5), _launch(4, 15, 6), *replays], eager=blocks)
    assert set(found["method"]) == {"graph"}
    assert found["layer"].to_list() == [0, 1, 2, 3]


def test_a_run_of_graphs_only_tells_no_eager_query() -> None:
    rows = [*_LAYERS, _launch(4, 5, 9), _kernel(5, 300, 9), _kernel(6, 310, 9)]
    assert eager_of(_kernels(rows)) is None


@pytest.mark.parametrize(
    ("names", "layers"),
    [
        (["a", "b", "a", "b"], [0, 0, 1, 1]),
        (["x", "a", "b", "x", "b"], [None, 0, 0, None, 1]),
        (["c"], [None]),
        ([], []),
    ],
)
def test_alignment_keeps_order(names: list[str], layers: list[int | None]) -> None:
    eager = pl.DataFrame({"name": ["a", "b", "a", "b"], "layer": [0, 0, 1, 1]})
    assert aligned(names, eager) == layers


def test_counters_of_a_replay_stand_for_a_query_and_its_layer() -> None:
    counted = _row(5, SpanKind.KERNEL, 300, -1) | {"name": "gemm", "correlation": None}
    device_attributes = _device_attributes({"span": 5, "flops": 8.0, "occupancy": 50.0})
    found = _kernels([*_LAYERS, counted], device_attributes, layers={5: 1})
    assert counted_in(found, 3).select("query", "layer", "flops").rows() == [(3, 1, 8.0)]
    assert unattributed_share(found) == 0.0
    assert counted_in(found, None)["query"].to_list() == [-1]


def _unreplayed(at: int) -> list[dict[str, Any]]:
    """Return what one call without its graph leaves: of no query, behind the queries."""
    layers = [
        {"span": 40 + n, "level": 3, "start_ns": at + 40 * n, "duration_ns": 30, "query": -1}
        | {"layer": n, "name": f"layer{n}", "thread": 0}
        for n in range(2)
    ]
    calls = [_launch(50 + n, at + 5 + 40 * n, 60 + n) for n in range(2)]
    kernels = [_kernel(55 + n, at + 200 + n, 60 + n, name) for n, name in enumerate(("conv", "fc"))]
    return [*layers, *calls, *kernels]


def test_a_replay_takes_the_layers_of_a_call_that_is_of_no_query() -> None:
    copy = [_launch(4, 5, 9), _kernel(5, 300, 9, "copy")]
    replay = [_kernel(20 + n, 310 + 9 * n, 5, name) for n, name in enumerate(("conv", "fc", "x"))]
    rows = [_LAYERS[0], *copy, _launch(6, 15, 5), *replay, *_unreplayed(1000)]
    eager = eager_of(_kernels(rows))
    assert eager is not None
    assert eager.rows() == [("conv", 0), ("fc", 1)]
    found = _kernels(rows, eager=eager)
    replayed = found.filter(pl.col("method") == "graph")
    assert replayed["layer"].to_list() == [0, 1, None]
    assert replayed_share(found) == pytest.approx(2 / 3)
    # Of four kernels of queries two have a layer; the two of the call that told them are nobody's.
    assert unattributed_share(found) == pytest.approx(1 / 2)


def test_without_a_graph_nothing_is_said_of_one() -> None:
    assert replayed_share(_kernels([*_LAYERS, _launch(4, 5, 9), _kernel(5, 300, 9)])) is None
