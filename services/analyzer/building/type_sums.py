"""What tables of layers by group share: times and counts of all layers of a type or kind."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from schemas.analysis import Column
from services.analyzer.building.grouped import trimmed
from services.analyzer.building.layer_work import LayerWork
from services.analyzer.building.table import (
    estimate_columns,
    float_column,
    int_column,
    ranked_by_time,
    run_cells,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import Run


def time_columns(group: str, description: str) -> tuple[Column, ...]:
    """Return the columns after `RUN_COLUMNS` in a table of times by `group`; see `time_rows`."""
    return (
        text_column(group, description),
        int_column("layers", "Layers in it."),
        int_column("queries", "Queries measured."),
        *estimate_columns("time", "Trimmed mean of their summed time per query."),
        float_column("share_of_layers", f"Share of the sum of all {group}s' trimmed means.", "1"),
        float_column(
            "share", "Share of the trimmed mean of predict, for layer spans of the same run.", "1"
        ),
    )


def time_rows(
    work: LayerWork, of_place: pl.DataFrame, group: str, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a row for each group of the layers of `work`, longest time first.

    `of_place` has the `place` of each layer and its `group`, an index into `names`. Kernels of no
    known layer belong to the group of the null place, if there is one.
    """
    counts = dict(
        of_place.drop_nulls("place").group_by(group, maintain_order=True).len().iter_rows()
    )
    summed = (
        work.times.join(of_place, on="place", nulls_equal=True)
        .group_by(group, "query", maintain_order=True)
        .agg(pl.col("time_ns").sum())
    )
    rows = [
        {
            **run_cells(work.run.row),
            group: names[row[group]],
            "layers": counts.get(row[group], 0),
            "queries": row["n"],
            "time": row["mid"],
            "time_low": row["low"],
            "time_high": row["high"],
            "share": share(row["mid"], work.predict_ns),
        }
        for row in trimmed(summed, [group], "time_ns").to_dicts()
    ]
    return ranked_by_time(rows, "share_of_layers")


def count_rows(run: Run, layers: pl.DataFrame, by: str, amount: pl.Expr) -> list[dict[str, Any]]:
    """Return a row for each type of `layers` with its count and an `amount`, largest `by` first.

    `layers` are those of `run` (`layers_of`); `amount` aggregates the layers of a type. `by` is
    "layers" or the amount's name, and `share` is that column's share of its sum.
    """
    counted = (
        layers.group_by("type", maintain_order=True)
        .agg(pl.len().alias("layers"), amount)
        .sort(by, descending=True, maintain_order=True)
    )
    total = int(counted[by].sum())
    return [
        {**run_cells(run.row), **row, "share": share(row[by], total)} for row in counted.to_dicts()
    ]
