"""The queries of a torch.profiler trace, found by its annotations. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from mlscope.importing.nesting import is_outermost
from schemas.run import QUERIES_GUESSED

_STEP = r"^ProfilerStep#\d+$"
QUERY = "query"
_PYTORCHS_OWN = r"^(enumerate\(DataLoader\)|Optimizer\.)"
"""Annotations that PyTorch itself makes, around work that is not inference."""
_ADVICE = 'wrap each call in record_function("query"), or call profiler.step()'
_COLUMNS = ("name", "start_ns", "duration_ns", "thread")


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries (name, start_ns, duration_ns, thread) of a trace."""

    frame: pl.DataFrame
    #: the names of annotations that are queries; no other annotation has one of them
    names: Sequence[str] = ()
    notes: tuple[str, ...] = ()


def queries_of(annotations: pl.DataFrame, hosts: pl.DataFrame) -> Queries:
    """Return the queries among annotations, otherwise all of `hosts` as one query.

    Steps (`profiler.step()`) are queries; without any, annotations called `query`; without those,
    annotations of the only name that occurs more than once, outermost and one after another.
    """
    is_step, is_named_query = pl.col("name").str.contains(_STEP), pl.col("name") == QUERY
    explicit = annotations.select(_COLUMNS).filter(is_step | is_named_query)
    steps = explicit.filter(is_step)
    if explicit.height:
        return Queries(steps if steps.height else explicit, explicit["name"].unique().to_list())
    repeated = repeated_names(annotations.select(_COLUMNS))
    if len(repeated) == 1:
        (name,) = repeated
        queries = annotations.select(_COLUMNS).filter(pl.col("name") == name)
        reason = (
            f"the trace names no steps, so each of {queries.height} annotations {name!r} is a query"
        )
        return Queries(queries, (name,), (f"{QUERIES_GUESSED}{reason}",))
    if repeated:
        reason = f"any of the annotations {', '.join(map(repr, repeated))} may be the queries"
    else:
        reason = "the trace does not say where a query begins"
    reason = f"{reason}, so the whole trace is one query: {_ADVICE}"
    end = (pl.col("start_ns") + pl.col("duration_ns")).max()
    whole_trace = hosts.select(
        pl.lit("trace").alias("name"),
        pl.col("start_ns").min(),
        (end - pl.col("start_ns").min()).alias("duration_ns"),
        pl.col("thread").mode().first(),
    )
    return Queries(whole_trace, (), (f"{QUERIES_GUESSED}{reason}",))


def repeated_names(annotations: pl.DataFrame) -> list[str]:
    """Return the names that occur more than once, each outermost and none overlapping another.

    Those of PyTorch's own annotations are left out. `annotations` have name, start_ns, duration_ns
    and thread; those that two threads make at the same time can't be queries.
    """
    end = pl.col("start_ns") + pl.col("duration_ns")
    ordered = annotations.sort("thread", "start_ns", -pl.col("duration_ns"), maintain_order=True)
    by_start = ordered.with_columns(is_outermost().alias("is_outer"), end.alias("end_ns"))
    by_start = by_start.sort("start_ns")
    previous_end = pl.col("end_ns").cum_max().shift(1).over("name")
    is_apart = (pl.col("start_ns") >= previous_end).fill_null(value=True)
    names = (
        by_start.with_columns(is_apart.alias("is_apart"))
        .filter(~pl.col("name").str.contains(_PYTORCHS_OWN))
        .group_by("name", maintain_order=True)
        .agg(pl.len(), pl.col("is_outer", "is_apart").all())
        .filter((pl.col("len") > 1) & pl.col("is_outer") & pl.col("is_apart"))
    )
    return names["name"].to_list()


def query_of(queries: pl.DataFrame, spans: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return the number of the query that each of `spans` lies in, -1 for none.

    `queries` do not overlap; they are numbered from 0 by their starts.
    """
    query_start, query_end = _starts_and_ends(queries.sort("start_ns"))
    start, end = _starts_and_ends(spans)
    if not len(query_start):
        return np.full(len(start), -1, np.int64)
    query = np.searchsorted(query_start, start, side="right") - 1
    is_inside = (query >= 0) & (end <= query_end[np.maximum(query, 0)])
    return np.where(is_inside, query, -1)


def _starts_and_ends(spans: pl.DataFrame) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    start = spans["start_ns"].to_numpy()
    return start, start + spans["duration_ns"].to_numpy()
