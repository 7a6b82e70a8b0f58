"""The headline figures of an evaluation: latency, rate, batch size, accuracy, energy. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlscope.quantities import shown
from schemas.analysis import Table
from schemas.status import EvaluationStatus
from services.gateway.pages.headlines import Figure, figure_of
from services.gateway.pages.results.cells import (
    Cells,
    estimate_in,
    figure_in,
    rows_by_run,
    rows_of,
    with_value,
)

_BATCHED = "batched"


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline figure: its name, the figure, of what it is, and the analysis it comes from."""

    name: str
    figure: Figure
    place: str
    analysis: str

    @property
    def amount(self) -> str:
        """The number of the figure, or all of a text without a unit."""
        return self.figure.text.removesuffix(self.unit).rstrip()

    @property
    def unit(self) -> str:
        """The unit of the figure, '' without one."""
        number, _, unit = self.figure.text.rpartition(" ")
        return unit if number.replace(".", "").replace("-", "").isdecimal() else ""


def tiles_of(status: EvaluationStatus, tables: Mapping[str, Table]) -> list[Tile]:
    """Return the headline figures that the `tables` of an evaluation in `status` have."""
    return [
        *_latency_tiles(status, tables),
        *_throughput_tile(status, tables),
        *_batch_tile(tables),
        *_accuracy_tile(tables),
        *_energy_tile(tables),
    ]


def load_text(row: Cells) -> str:
    """Return scenario and batch size of a row."""
    return f"{row.get('scenario', '')}, batch {row.get('batch_size', '')}"


def _latency_tiles(status: EvaluationStatus, tables: Mapping[str, Table]) -> list[Tile]:
    """Return percentiles of the first load that is not made for throughput."""
    rows = rows_by_run(tables, "latency")
    headlines = [line for line in status.headlines if line.run in rows]
    calm = [line for line in headlines if line.scenario != _BATCHED] or headlines
    row = rows[calm[0].run] if calm else next(iter(rows.values()), {})
    if not row:
        return []
    is_alone = row.get("count") == 1
    columns = [("median", "One query" if is_alone else "Latency p50")]
    if not is_alone:
        columns += [("p90", "Latency p90")]
        columns += [("p99", "Latency p99")] if row.get("loop") == "open" else []
    place = _place(row)
    return [
        Tile(name, figure, place, "latency")
        for column, name in columns
        if (figure := figure_in(tables["latency"], row, column))
    ]


def _place(row: Cells) -> str:
    """Return the load of a row; and its level where that is not the shallowest one."""
    level = row.get("level", "model")
    return load_text(row) + ("" if level in ("model", "", None) else f", level {level}")


def _throughput_tile(status: EvaluationStatus, tables: Mapping[str, Table]) -> list[Tile]:
    rows = rows_by_run(tables, "throughput")
    loads = [rows[line.run] for line in status.headlines if line.run in rows]
    # A headline is of a load's smallest batches; others of its level count too.
    levels = {row.get("level") for row in loads}
    alike = [row for row in rows.values() if not loads or row.get("level") in levels]
    measured = with_value(alike, "samples_per_s")
    if not measured:
        return []
    best = max(measured, key=lambda row: float(row["samples_per_s"]))
    offered = best.get("offered_per_s")
    place = _place(best) + (f", {shown(offered, '1/s')} offered" if offered else "")
    figure = figure_of(estimate_in(best, "samples_per_s"), "samples/s")
    return [Tile("Throughput", figure, place, "throughput")] if figure else []


def _batch_tile(tables: Mapping[str, Table]) -> list[Tile]:
    """Return the optimal batch size of the first load with several, or the candidates for it."""
    groups: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for row in rows_of(tables, "optimal_batch"):
        groups.setdefault((row.get("agent"), row.get("scenario")), []).append(row)
    for rows in groups.values():
        if len(rows) < 2:
            continue
        chosen = [row for row in rows if row.get("is_optimal")]
        sizes = [str(row["batch_size"]) for row in rows if row.get("is_optimal") is None]
        if not chosen and not sizes:
            continue
        text = str(chosen[0]["batch_size"]) if chosen else _alternatives(sizes)
        doubt = "" if chosen else "the intervals do not tell which"
        scenario = str(rows[0].get("scenario", ""))
        return [Tile("Optimal batch", Figure(text, doubt, ""), scenario, "optimal_batch")]
    return []


def _alternatives(sizes: Sequence[str]) -> str:
    if len(sizes) > 3:
        return f"{sizes[0]} … {sizes[-1]}"
    return " or ".join(sizes) if len(sizes) < 3 else f"{sizes[0]}, {sizes[1]} or {sizes[2]}"


def _accuracy_tile(tables: Mapping[str, Table]) -> list[Tile]:
    rows = with_value(rows_of(tables, "accuracy"), "value")
    if not rows:
        return []
    row = rows[0]
    counted = f"{row['hits']} of {row['n']}" if row.get("hits") is not None else ""
    # Where hits are counted the value is a share; else it is in the column's unit.
    figure = figure_in(tables["accuracy"], row, "value")
    figure = figure_of(estimate_in(row, "value"), "share") if counted else figure
    if figure is None:
        return []
    place = " · ".join(filter(None, (str(row.get("kind") or ""), counted)))
    return [Tile(f"Accuracy, {row.get('metric', '')}", figure, place, "accuracy")]


def _energy_tile(tables: Mapping[str, Table]) -> list[Tile]:
    rows = with_value(rows_of(tables, "energy"), "per_sample")
    if not rows:
        return []
    row = rows[0]
    power = f" at {shown(row['power'], 'W')}" if row.get("power") is not None else ""
    place = f"{row.get('part', '')}, batch {row.get('batch_size', '')}{power}"
    figure = figure_in(tables["energy"], row, "per_sample")
    return [Tile("Energy per sample", figure, place, "energy")] if figure else []
