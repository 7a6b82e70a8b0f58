"""Trace events that come in two, begin and end, as complete ones. Pure.

`B` and `E` nest on a thread; `b` and `e` (and `S` and `F` of old) by category, id and scope, on
whatever thread: such a chain is drawn on a lane of its own. An `E` ends the newest that is open, as
Chrome's viewer has it; an `e` that names one ends the newest of that name.
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format)
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

BEGINS, ENDS = ("B", "b", "S"), ("E", "e", "F")
INSTANTS = ("i", "I", "R", "n")
_ON_THREADS = ("B", "E")


@dataclass(frozen=True, slots=True)
class Paired:
    """Events as complete ones (`ph` X), and how many had no other half."""

    frame: pl.DataFrame
    unpaired: int = 0


def paired(events: pl.DataFrame) -> Paired:
    """Return pairs among events (chrome.EVENT_SCHEMA) as complete ones, with what begins said."""
    halves = events.filter(pl.col("ph").is_in([*BEGINS, *ENDS]) & pl.col("ts").is_not_null())
    if not halves.height:
        return Paired(halves)
    rising = with_chains(halves).sort("ts", maintain_order=True)
    rows, ends = [], []
    for row, ended in _matches(rising):
        rows.append(row)
        ends.append(ended)
    begun = rising.select(pl.all().gather(rows)).with_columns(
        pl.lit("X").alias("ph"),
        (pl.Series(ends, dtype=pl.Float64) - pl.col("ts")).alias("dur"),
    )
    return Paired(begun.select(events.columns), rising.height - 2 * len(rows))


def with_chains(events: pl.DataFrame) -> pl.DataFrame:
    """Return events whose thread, where they belong to an id, is the lane of that id."""
    chain = pl.concat_str("cat", _id(events), separator=" ", ignore_nulls=True)
    on_thread = pl.col("ph").is_in([*_ON_THREADS, "X", "i", "I", "R"])
    return events.with_columns(pl.when(on_thread).then(pl.col("tid")).otherwise(chain).alias("tid"))


def _id(events: pl.DataFrame) -> pl.Expr:
    """Return what tells chains apart: an id, where it is global for all processes."""
    if "id" not in events.columns:
        return pl.lit("")
    ids = pl.coalesce(
        "id", pl.col("id2").struct.field("global"), pl.col("id2").struct.field("local")
    )
    return pl.concat_str("scope", ids, separator="/", ignore_nulls=True)


def _matches(rising: pl.DataFrame) -> Iterator[tuple[int, float]]:
    """Yield the row of each begin that has an end, and when that was."""
    open_rows: dict[tuple[str | None, ...], list[int]] = defaultdict(list)
    names = rising["name"].to_list()
    columns = rising.select("ph", "pid", "tid", "ts").iter_rows()
    for row, (kind, pid, tid, ts) in enumerate(columns):
        on_thread = kind in _ON_THREADS
        opened = open_rows[pid, tid, "thread" if on_thread else "chain"]
        if kind in BEGINS:
            opened.append(row)
        elif opened:
            place = -1 if on_thread else _newest(opened, names, names[row])
            yield opened.pop(place), ts


def _newest(opened: list[int], names: list[str | None], name: str | None) -> int:
    """Return the place of the newest open row of a name, of the newest where none has it."""
    for place in range(len(opened) - 1, -1, -1):
        if name is not None and names[opened[place]] == name:
            return place
    return -1
