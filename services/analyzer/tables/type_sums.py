"""What tables of layers by kind share: times and counts of all layers of a kind together."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from schemas.analysis import Column
from services.analyzer.frames import Run
from services.analyzer.grouped import trimmed
from services.analyzer.tables.layer_work import LayerWork
from services.analyzer.tables.table import estimate, ranked, real, run_cells, share, text, whole


def time_columns(group: str, description: str) -> tuple[Column, ...]:
    """Return what follows `RUN_COLUMNS` in a table of times by `group`, as `time_rows` fills it."""
    return (
        text(group, description),
        whole("layers", "Layers of it."),
        whole("queries", "Queries they served."),
        *estimate("time", "Trimmed mean of their time a query."),
        real("share_of_layers", f"Share of the {group}s' summed trimmed means.", "1"),
        real(
            "share", "Share of predict's trimmed mean; of layers' own time, in the same run.", "1"
        ),
    )


def time_rows(
    work: LayerWork, of_place: pl.DataFrame, group: str, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a row a group, most time first.

    `of_place` has a layer's `place` and the number of its `group`, which `names` names; kernels of
    no known layer have the group of the null place, if it has one.
    """
    counts = dict(of_place.drop_nulls("place").group_by(group).len().iter_rows())
    summed = (
        work.times.join(of_place, on="place", nulls_equal=True)
        .group_by(group, "query")
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
    return ranked(rows, "share_of_layers")


def count_rows(run: Run, layers: pl.DataFrame, by: str, amount: pl.Expr) -> list[dict[str, Any]]:
    """Return a row a type with its `layers` and an `amount` of them, most of `by` first."""
    counted = (
        layers.group_by("type", maintain_order=True)
        .agg(pl.len().alias("layers"), amount)
        .sort(by, descending=True, maintain_order=True)
    )
    total = int(counted[by].sum())
    return [
        {**run_cells(run.row), **row, "share": share(row[by], total)} for row in counted.to_dicts()
    ]
