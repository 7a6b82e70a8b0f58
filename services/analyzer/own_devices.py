"""What was sampled of a run's own devices: one that idles beside it tells nothing of it."""

import polars as pl

from services.analyzer.frames import Run

HOST = "cpu"


def own_devices(run: Run) -> list[int]:
    """Return the numbers of devices that a run's work ran on; else as its `device` says.

    `gpu` and `cuda` are device 0, `cuda:1` is 1; a run on the host has none.
    """
    if "device" in run.kernels.columns:
        seen: list[int] = run.kernels["device"].drop_nulls().unique().sort().to_list()
        if seen:
            return seen
    name, _, number = run.row.device.partition(":")
    if name in ("", HOST):
        return []
    return [int(number) if number.isdecimal() else 0]


def own_series(run: Run, name: str) -> pl.DataFrame:
    """Return a sampled series' rows of the run's own devices; those without a number are of 0."""
    rows = run.series.filter(pl.col("name") == name)
    if not rows.height:
        return rows
    numbered = rows.with_columns(pl.col("device").fill_null(0))
    return numbered.filter(pl.col("device").is_in(own_devices(run)))
