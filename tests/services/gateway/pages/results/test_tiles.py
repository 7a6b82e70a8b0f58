"""Headline figures: each with its unit, its interval, and the load it is of."""

from typing import Any

from schemas.analysis import Column, Headline, Table
from schemas.status import EvaluationStatus
from services.gateway.pages.results.tiles import Tile, tiles_of
from tests.stories import E

_UNITS = {"samples_per_s": "1/s", "value": "1", "per_sample": "J", "power": "W"}


def a_table(name: str, *rows: dict[str, Any]) -> Table:
    """Return a table of rows given as maps."""
    columns = tuple(
        Column(
            name=column,
            type="text" if isinstance(value, str) else "float",
            unit=_UNITS.get(column.removesuffix("_low").removesuffix("_high"), "ns"),
        )
        for column, value in rows[0].items()
    )
    return Table(
        name=name, title=name, columns=columns, rows=tuple(tuple(row.values()) for row in rows)
    )


def tiles(*tables: Table, headlines: tuple[Headline, ...] = ()) -> dict[str, Tile]:
    """Return the headline figures of tables, by name."""
    status = EvaluationStatus(
        evaluation=E, state="analyzed", model="tiny", requested_ns=1, headlines=headlines
    )
    return {tile.name: tile for tile in tiles_of(status, {table.name: table for table in tables})}


def latency_row(run: str, scenario: str, p99_high: float | None) -> dict[str, Any]:
    """Return a row of latencies."""
    load = {"run": run, "scenario": scenario, "batch_size": 1, "level": "model", "count": 200}
    figures: dict[str, Any] = {"loop": "open" if scenario == "poisson" else "closed"}
    for name, value, high in (("median", 5e6, 6e6), ("p90", 7e6, None), ("p99", 9e6, p99_high)):
        figures |= {name: value, f"{name}_low": value - 1e6, f"{name}_high": high}
    return load | figures


def test_latency_has_its_interval_and_says_where_the_upper_end_is_not_known() -> None:
    shown = tiles(a_table("latency", latency_row("r0", "online", None)))
    assert list(shown) == ["Latency p50", "Latency p90"]
    assert (shown["Latency p50"].amount, shown["Latency p50"].unit) == ("5.00", "ms")
    assert shown["Latency p50"].figure.interval == "4.00 … 6.00"
    assert shown["Latency p90"].figure.interval == "6.00 … unknown"
    assert shown["Latency p90"].place == "online, batch 1"


def test_an_open_loop_has_its_p99() -> None:
    shown = tiles(a_table("latency", latency_row("r0", "poisson", 11e6)))
    assert shown["Latency p99"].figure.interval == "8.00 … 11.00"


def test_latency_is_of_the_load_that_is_not_made_for_throughput() -> None:
    rows = [latency_row("r0", "batched", None), latency_row("r1", "online", None)]
    lines = (Headline(run="r0", scenario="batched"), Headline(run="r1", scenario="online"))
    shown = tiles(a_table("latency", *rows), headlines=lines)
    assert shown["Latency p50"].place == "online, batch 1"


def test_throughput_is_that_of_the_best_load() -> None:
    rates = [
        {"run": run, "scenario": "batched", "batch_size": batch, "samples_per_s": rate}
        for run, batch, rate in (("r0", 1, 40.0), ("r1", 8, 90.0))
    ]
    lines = (Headline(run="r0", scenario="batched"),)
    tile = tiles(a_table("throughput", *rates), headlines=lines)["Throughput"]
    assert (tile.amount, tile.unit, tile.place) == ("90.0", "samples/s", "batched, batch 8")
    assert tile.figure.interval == "no interval"


def test_the_optimal_batch_says_when_the_intervals_do_not_tell() -> None:
    rows = [
        {"agent": "a", "scenario": "batched", "batch_size": size, "is_optimal": is_optimal}
        for size, is_optimal in ((1, False), (2, None), (4, None))
    ]
    tile = tiles(a_table("optimal_batch", *rows))["Optimal batch"]
    assert (tile.amount, tile.figure.interval) == ("2 or 4", "the intervals do not tell which")
    settled = [{**row, "is_optimal": row["batch_size"] == 4} for row in rows]
    tile = tiles(a_table("optimal_batch", *settled))["Optimal batch"]
    assert (tile.amount, tile.figure.interval) == ("4", "")


def test_accuracy_and_energy_are_there_where_they_were_measured() -> None:
    accuracy = {"metric": "top-1", "value": 0.75, "value_low": 0.6, "value_high": 0.8}
    accuracy |= {"hits": 3, "n": 4, "kind": "smoke check"}
    energy = {"part": "gpu", "batch_size": 8, "per_sample": 0.21, "power": 148.0}
    shown = tiles(a_table("accuracy", accuracy), a_table("energy", energy))
    assert shown["Accuracy, top-1"].figure.interval == "60.0 … 80.0"
    assert shown["Accuracy, top-1"].place == "smoke check · 3 of 4"
    assert (shown["Energy per sample"].amount, shown["Energy per sample"].unit) == ("0.210", "J")
    assert shown["Energy per sample"].place == "gpu, batch 8 at 148 W"


def test_without_tables_there_are_none() -> None:
    assert tiles() == {}
