"""Copies by layer: their directions, their share of the layer, and what no layer copied."""

from typing import Any

import pytest

from mlscope.tracing.copy_kinds import COPY_KINDS
from services.analyzer.tables.copies_by_layer import (
    ANALYSIS,
    COLD_COPIES,
    DIRECTIONS,
    NO_COPIES,
    NO_DEVICE,
)
from tests.services.analyzer.tables.reading import rows_of, table_of
from tests.services.analyzer.tables.traced import (
    copy,
    counter_run,
    kernel_run,
    layer_run,
    memset,
    model_run,
    named,
)

LAYERS = layer_run((0, "embed", 1000), (1, "nms", 500))
KERNEL = (0, "gemm", 700)
SERIALISED = {"run": "b", "session": "b1-serialised", "variant": "serialised", "level": 5}


def directions(row: dict[str, Any]) -> dict[str, float]:
    """Return the directions that have time, with it."""
    return {name: row[name] for name in DIRECTIONS if row[name]}


def test_a_layers_copies_are_a_share_of_its_own_time() -> None:
    work = kernel_run(KERNEL, copy(0, 100), copy(0, 50, "DtoD"), copy(1, 40, "DtoH"))
    rows = named(rows_of(table_of(ANALYSIS, LAYERS, work)))
    assert directions(rows["embed"]) == {"host_to_device": 100, "device_to_device": 50}
    assert directions(rows["nms"]) == {"device_to_host": 40}
    cells = [(rows[name]["copies"], rows[name]["share"]) for name in ("embed", "nms")]
    assert cells == [(2, 0.15), (1, 0.08)]


@pytest.mark.parametrize("kind", COPY_KINDS)
def test_every_kind_of_copy_has_one_direction(kind: str) -> None:
    (row,) = rows_of(table_of(ANALYSIS, LAYERS, kernel_run(copy(0, 100, kind))))
    source, _, target = kind.removeprefix("UVM ").partition("to")
    sides = {"H": "host"} | dict.fromkeys("DAP", "device")
    expected = f"{sides.get(source)}_to_{sides.get(target)}"
    assert directions(row) == {expected if expected in DIRECTIONS else "other": 100}


def test_a_copy_without_a_direction_is_other() -> None:
    unknown = (*copy(0, 100)[:-1], None)
    (row,) = rows_of(table_of(ANALYSIS, LAYERS, kernel_run(unknown)))
    assert directions(row) == {"other": 100}


def test_a_query_without_a_copy_counts_as_zero() -> None:
    work = kernel_run(KERNEL, copy(1, 90))
    # The last query has its kernel alone.
    work["kernels"].pop()
    (row,) = rows_of(table_of(ANALYSIS, LAYERS, work))
    assert (row["queries"], row["time"], row["copies"]) == (3, 60, pytest.approx(2 / 3))
    assert row["time_low"] < 60 < row["time_high"]
    assert row["share"] == pytest.approx(0.12)


def test_layer_zero_and_no_layer_stay_apart() -> None:
    table = table_of(ANALYSIS, LAYERS, kernel_run(copy(None, 300), copy(0, 100)))
    cells = [(row["layer"], row["time"], row["share"]) for row in rows_of(table)]
    assert cells == [(0, 100, 0.1), (None, 300, None)]
    assert table.verdict == (
        "Only layer embed copies memory in s: 100 ns per query, 10.0% of its time; copies outside "
        "of layers take 300 ns."
    )


def test_a_verdict_tells_layers_of_one_name_apart_and_names_doubt() -> None:
    twins = layer_run((0, "to", 1000), (1, "to", 500))
    first = table_of(ANALYSIS, twins, kernel_run(copy(0, 100), copy(1, 40))).verdict
    assert first == (
        "Copies take 140 ns per query in 2 layers of s, 9.3% of their time: layer to (index 0) "
        "copies longest, 100 ns, 10.0% of its time."
    )
    equal = table_of(ANALYSIS, twins, kernel_run(copy(0, 40), copy(1, 40))).verdict
    assert "which copies longest: layer to (index 0) or layer to (index 1)." in equal


def test_a_verdict_names_copies_outside_of_layers_alone() -> None:
    table = table_of(ANALYSIS, LAYERS, kernel_run(KERNEL, copy(None, 300)))
    assert table.verdict == (
        "No layer copies memory (s); copies outside of layers take 300 ns per query."
    )
    assert not any("launches return at once" in caveat for caveat in table.caveats)


def test_a_share_may_exceed_one_where_nothing_waits_and_a_caveat_says_so() -> None:
    table = table_of(ANALYSIS, LAYERS, kernel_run(KERNEL, copy(0, 2500)))
    assert rows_of(table)[0]["share"] == 2.5
    assert any("launches return at once" in caveat for caveat in table.caveats)


def test_serialised_runs_have_rows_behind_plain_ones_and_the_verdict() -> None:
    alone = layer_run((0, "embed", 4000)) | {"kernels": kernel_run(copy(0, 100))["kernels"]}
    table = table_of(ANALYSIS, alone | SERIALISED, LAYERS, kernel_run(copy(0, 200)))
    cells = [(row["run"], row["variant"], row["share"]) for row in rows_of(table)]
    assert cells == [("s", "", 0.2), ("b", "serialised", 0.025)]
    assert table.verdict == (
        "Only layer embed copies memory in b, serialised: 100 ns per query, 2.5% of its time."
    )
    (note,) = [caveat for caveat in table.caveats if "no run stops at level framework" in caveat]
    assert note.startswith("b: ")


def test_copies_of_layers_side_by_side_have_no_certain_parent() -> None:
    overlapping = layer_run((0, "embed", 1000), (1, "nms", 500), run="s", level=5)
    for place, row in enumerate(overlapping["spans"]):
        row[6] = place % 2
    overlapping["kernels"] = kernel_run(copy(0, 100))["kernels"]
    caveats = table_of(ANALYSIS, overlapping).caveats
    assert any("parents are ambiguous: request serialised runs" in caveat for caveat in caveats)


def test_without_a_run_at_level_framework_a_layer_has_no_share() -> None:
    work = kernel_run(copy(0, 100), layers=[[0, "embed", "Embedding"]])
    table = table_of(ANALYSIS, work)
    (row,) = rows_of(table)
    assert (row["name"], row["latency"], row["share"]) == ("embed", None, None)
    assert table.verdict == "Only layer embed copies memory in s: 100 ns per query."


def test_a_table_without_rows_says_why() -> None:
    reasons = {
        NO_DEVICE: model_run(),
        NO_COPIES: kernel_run(KERNEL, memset(0, 10)),
        COLD_COPIES: kernel_run(copy(0, 100), variant="cold"),
    }
    for reason, run in reasons.items():
        table = table_of(ANALYSIS, run)
        assert (table.rows, table.verdict) == ((), reason)


def test_a_replay_for_counters_has_no_times_of_copies() -> None:
    table = table_of(ANALYSIS, counter_run(copy(0, 100)))
    assert table.rows == ()


def test_one_query_has_no_interval() -> None:
    (row,) = rows_of(table_of(ANALYSIS, LAYERS, kernel_run(copy(0, 100), count=1)))
    assert (row["time"], row["time_low"], row["share_low"]) == (100, None, None)
