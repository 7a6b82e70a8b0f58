"""Trace events that come in pairs, begin and end, as complete events. Pure.

`B` and `E` nest on a thread; `b` and `e` (and the older `S` and `F`) belong together by category,
id and scope, on whatever thread: such a chain is drawn on a lane of its own. An `E` ends the newest
open begin, as in Chrome's viewer; an `e` with a name ends the newest begin of that name.
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format)
"""

from collections import defaultdict
from dataclasses import dataclass

import polars as pl

BEGINS, ENDS = ("B", "b", "S"), ("E", "e", "F")
INSTANTS = ("i", "I", "R", "n")
_ON_THREADS = ("B", "E")


@dataclass(frozen=True, slots=True)
class Paired:
    """Events as complete ones (`ph` X), and how many begins and ends had no counterpart."""

    frame: pl.DataFrame
    unpaired: int = 0


def paired(events: pl.DataFrame) -> Paired:
    """Return the pairs among events (EVENT_SCHEMA) as complete ones, with the begin's fields."""
    halves = events.filter(pl.col("ph").is_in([*BEGINS, *ENDS]) & pl.col("ts").is_not_null())
    if not halves.height:
        return Paired(halves)
    halves = with_chains(halves).sort("ts", maintain_order=True)
    begin_rows, ends = list[int](), list[float]()
    open_rows: dict[tuple[str | None, ...], list[int]] = defaultdict(list)
    names = halves["name"].to_list()
    columns = halves.select("ph", "pid", "tid", "ts").iter_rows()
    for row, (phase, pid, tid, ts) in enumerate(columns):
        on_thread = phase in _ON_THREADS
        opened = open_rows[pid, tid, "thread" if on_thread else "chain"]
        if phase in BEGINS:
            opened.append(row)
            continue
        if not opened:
            continue
        newest_first = range(len(opened) - 1, -1, -1)
        same_name = (
            place
            for place in newest_first
            if not on_thread and names[row] is not None and names[opened[place]] == names[row]
        )
        begin_rows.append(opened.pop(next(same_name, -1)))
        ends.append(ts)
    complete = halves.select(pl.all().gather(begin_rows)).with_columns(
        pl.lit("X").alias("ph"),
        (pl.Series(ends, dtype=pl.Float64) - pl.col("ts")).alias("dur"),
    )
    return Paired(complete.select(events.columns), halves.height - 2 * len(begin_rows))


def with_chains(events: pl.DataFrame) -> pl.DataFrame:
    """Return events in which `tid` is the lane of the id, where an event belongs to one."""
    if "id" in events.columns:
        id2 = pl.col("id2").struct
        ids = pl.coalesce("id", id2.field("global"), id2.field("local"))
        chain_id = pl.concat_str("scope", ids, separator="/", ignore_nulls=True)
    else:
        chain_id = pl.lit("")
    chain = pl.concat_str("cat", chain_id, separator=" ", ignore_nulls=True)
    on_thread = pl.col("ph").is_in([*_ON_THREADS, "X", "i", "I", "R"])
    return events.with_columns(pl.when(on_thread).then(pl.col("tid")).otherwise(chain).alias("tid"))
