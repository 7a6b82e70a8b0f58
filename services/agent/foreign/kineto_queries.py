"""Which stretches of a torch.profiler trace are queries. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from schemas.run import QUERIES_GUESSED

_STEP = r"^ProfilerStep#\d+$"
QUERY = "query"
_NOT_OF_THE_USER = r"^(enumerate\(DataLoader\)|Optimizer\.)"
"""Annotations that PyTorch makes by itself, around what is no inference."""
_ADVICE = 'wrap each call in record_function("query"), or call profiler.step()'
_COLUMNS = ("name", "start_ns", "duration_ns", "thread")


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries (name, start_ns, duration_ns, thread) of a trace."""

    frame: pl.DataFrame
    #: what annotations that are queries are called, none of which is anything else
    names: Sequence[str] = ()
    notes: tuple[str, ...] = ()


def queries_of(annotations: pl.DataFrame, hosts: pl.DataFrame) -> Queries:
    """Return the queries among annotations, else all that lies in `hosts` as one.

    Steps (`profiler.step()`) are queries; without any, annotations called `query`; without those,
    annotations of the one name that comes more than once, outermost and one after another.
    """
    is_step, is_named = pl.col("name").str.contains(_STEP), pl.col("name") == QUERY
    named = annotations.select(_COLUMNS).filter(is_step | is_named)
    steps = named.filter(is_step)
    if named.height:
        return Queries(steps if steps.height else named, named["name"].unique().to_list())
    repeated = _repeated(annotations.select(_COLUMNS))
    if len(repeated) == 1:
        (name,) = repeated
        found = annotations.select(_COLUMNS).filter(pl.col("name") == name)
        told = f"the trace names no step, so each of {found.height} annotations {name!r} is one"
        return Queries(found, (name,), (f"{QUERIES_GUESSED}{told}",))
    which = f" which of {', '.join(map(repr, repeated))} is one, and" if repeated else ""
    told = f"the trace does not say{which} where one begins, so all of it is one: {_ADVICE}"
    return Queries(_whole(hosts), (), (f"{QUERIES_GUESSED}{told}",))


def _repeated(annotations: pl.DataFrame) -> list[str]:
    """Return the names of which there are two and more, each outermost, none overlapping another.

    What two threads do at a time is no row of queries.
    """
    end = pl.col("start_ns") + pl.col("duration_ns")
    rising = annotations.sort("thread", "start_ns", -pl.col("duration_ns"), maintain_order=True)
    outermost = (pl.col("start_ns") >= end.cum_max().shift(1).over("thread")).fill_null(value=True)
    told = rising.with_columns(outermost.alias("is_outer"), end.alias("end_ns")).sort("start_ns")
    before = pl.col("end_ns").cum_max().shift(1).over("name")
    apart = (pl.col("start_ns") >= before).fill_null(value=True)
    found = (
        told.with_columns(apart.alias("is_apart"))
        .filter(~pl.col("name").str.contains(_NOT_OF_THE_USER))
        .group_by("name", maintain_order=True)
        .agg(pl.len(), pl.col("is_outer", "is_apart").all())
        .filter((pl.col("len") > 1) & pl.col("is_outer") & pl.col("is_apart"))
    )
    return found["name"].to_list()


def _whole(hosts: pl.DataFrame) -> pl.DataFrame:
    """Return a query from the first begin to the last end."""
    end = (pl.col("start_ns") + pl.col("duration_ns")).max()
    return hosts.select(
        pl.lit("trace").alias("name"),
        pl.col("start_ns").min(),
        (end - pl.col("start_ns").min()).alias("duration_ns"),
        pl.col("thread").mode().first(),
    )
