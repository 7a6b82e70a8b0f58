"""Series of the devices that a run used: an idle device beside them says nothing about it."""

import polars as pl

from services.analyzer.frames.evaluation import Run

HOST = "cpu"


def own_devices(run: Run) -> list[int]:
    """Return the numbers of the devices that a run's kernels used, else those of its `device`.

    `gpu` and `cuda` are device 0, `cuda:1` is 1; a run on the host has none.
    """
    if "device" in run.device_work.columns:
        used: list[int] = run.device_work["device"].drop_nulls().unique().sort().to_list()
        if used:
            return used
    name, _, number = run.row.device.partition(":")
    if name in ("", HOST):
        return []
    return [int(number) if number.isdecimal() else 0]


def own_series(run: Run, name: str) -> pl.DataFrame:
    """Return the rows of series `name` of the run's own devices; null as device means 0."""
    rows = run.series.filter(pl.col("name") == name)
    if not rows.height:
        return rows
    numbered = rows.with_columns(pl.col("device").fill_null(0))
    return numbered.filter(pl.col("device").is_in(own_devices(run)))
