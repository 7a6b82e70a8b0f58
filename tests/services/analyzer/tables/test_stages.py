"""Stages: thirds by place, each quantity's own; what is unknown dominates nothing."""

from services.analyzer.tables.stages import ANALYSIS
from tests.services.analyzer.tables.reading import rows_of, table_of
from tests.services.analyzer.tables.traced import layer_run, named


def test_thirds_are_by_place_and_hold_every_layer_once() -> None:
    run = layer_run(*[(n, f"l{n}", 10 * (n + 1)) for n in range(7)])
    rows = named(rows_of(table_of(ANALYSIS, run)), "stage")
    ends = [(rows[s]["first"], rows[s]["last"]) for s in ("beginning", "middle", "end")]
    assert ends == [(0, 2), (3, 4), (5, 6)]
    assert [row["time"] for row in rows.values()] == [60, 90, 130]
    assert rows["end"]["dominates"] == "latency"


def test_unknown_memory_dominates_nothing() -> None:
    (first, *_) = rows_of(table_of(ANALYSIS, layer_run((0, "a", 10))))
    assert (first["memory_bytes"], first["share_of_memory"], first["dominates"]) == (
        None,
        None,
        "latency",
    )


def test_each_quantity_has_its_own_stage() -> None:
    device_attributes = [
        [0, "a", "T", "", "", None, 5, 900],
        [1, "b", "T", "", "", None, 7, 1],
        [2, "c", "T"],
    ]
    run = layer_run((0, "a", 1), (1, "b", 1), (2, "c", 9), layers=device_attributes)
    table = table_of(ANALYSIS, run)
    told = [row["dominates"] for row in rows_of(table)]
    assert told == ["FLOP", "memory", "latency"]
    assert (
        "most FLOP is in the beginning; most memory is in the middle; most latency is in the end."
        in table.verdict
    )
