"""A run's device work in answered queries, and its kernels with their sums.

A kernel is identified by its layer, its name, and its number among the kernels of that name in its
layer and query, so repeated kernels of one name are never mixed. Formulas: XSP III-D3. Latency,
FLOP and bytes are summed; occupancy is weighted by latency; intensity and throughput are computed
from the sums.
"""

from collections.abc import Sequence
from typing import Any

import polars as pl

from schemas.batch import SpanKind
from services.analyzer.building.grouped import numbered, trimmed, with_absent
from services.analyzer.building.roofs.ceilings import Ceilings
from services.analyzer.building.table import share
from services.analyzer.frames.derived import once_a_run
from services.analyzer.frames.evaluation import Run

IDENTITY = ("layer", "name", "nth")
COUNTERS = ("flops", "dram_read_bytes", "dram_write_bytes", "occupancy")
UNATTRIBUTED = "(no layer)"

_COLUMNS = {
    "query": pl.Int32,
    "layer": pl.Int32,
    "name": pl.String,
    "kind": pl.Int16,
    "start_ns": pl.Int64,
    "duration_ns": pl.Int64,
    "launch_ns": pl.Int64,
    "copy_kind": pl.String,
    **dict.fromkeys(COUNTERS, pl.Float64),
}


@once_a_run
def answered_work(run: Run) -> pl.DataFrame:
    """Return the work on devices in answered queries: kernels, copies and sets.

    Rows are in the order of their launches, as in ncu; without a known launch, of their starts.

    The columns are query, layer, name, kind, start_ns, duration_ns, launch_ns (null: unknown),
    copy_kind (null: no copy, or one whose source names no direction), the counters (null: not
    counted), `nth`, and `identity`: a number for the layer, name and nth, which identify a kernel.

    A null `layer` is "no known layer" (`UNATTRIBUTED`), a group like any other: tables have a row
    for it. Never fill it, as 0 is a layer; join on it with `nulls_equal=True`. Sums by layer and
    query lack the queries in which a layer did no work: `building.grouped.with_absent` adds them.
    """
    work = run.device_work
    if not work.height:
        return pl.DataFrame(schema={**_COLUMNS, "nth": pl.UInt32, "identity": pl.Int64})
    absent = [pl.lit(None, kind).alias(n) for n, kind in _COLUMNS.items() if n not in work.columns]
    kernel = pl.col("kind").fill_null(int(SpanKind.KERNEL))
    work = (
        work.with_columns(absent)
        .select(pl.col(name).cast(kind) for name, kind in _COLUMNS.items())
        .with_columns(kernel)
        .sort(pl.coalesce("launch_ns", "start_ns"), "start_ns", maintain_order=True)
    )
    if run.queries.height:
        work = work.join(run.answered.select("query"), on="query", how="semi")
    # Numbers group far faster than texts.
    code = pl.col("name").cast(pl.Categorical).to_physical().cast(pl.Int64)
    layer = pl.col("layer").cast(pl.Int64).fill_null(-1) + 1
    work = work.with_columns(code.alias("code"))
    codes = _count_of(work["code"])
    work = work.with_columns((layer * codes + pl.col("code")).alias("layer_and_name"))
    nth = pl.int_range(pl.len(), dtype=pl.UInt32).over("query", "layer_and_name").alias("nth")
    work = work.with_columns(nth)
    repeats = _count_of(work["nth"])
    identity = (pl.col("layer_and_name") * repeats + pl.col("nth")).alias("identity")
    return work.with_columns(identity).drop("code", "layer_and_name")


def _count_of(numbers: pl.Series) -> int:
    """Return how many numbers from 0 to the largest of a column there are; 1 without any."""
    return int(numbers.max() or 0) + 1  # type: ignore[arg-type]


def kernels_of(run: Run) -> pl.DataFrame:
    """Return the rows of `answered_work` that are kernels, not copies or sets."""
    return answered_work(run).filter(pl.col("kind") == int(SpanKind.KERNEL))


def copies_of(run: Run) -> pl.DataFrame:
    """Return the rows of `answered_work` that are copies."""
    return answered_work(run).filter(pl.col("kind") == int(SpanKind.COPY))


def has_all_counters() -> pl.Expr:
    """Return whether a kernel has the counters of FLOP and of bytes read and written."""
    return pl.all_horizontal(pl.col(name).is_not_null() for name in COUNTERS[:3])


def sums(kernels: pl.DataFrame, by: Sequence[str], ceilings: Ceilings) -> list[dict[str, Any]]:
    """Return a map for each group of kernels: what one query spends in it.

    Its keys are `by`, queries (measured), calls (per query), time (ns) with its interval, the
    counters (per query), counted (the share of its time whose kernels have all counters), and
    those of `point_of` under the roof of `ceilings`. Null where no kernel has a value.
    """
    if not kernels.height:
        return []
    if tuple(by) == IDENTITY:
        groups, codes = numbered(kernels, ["identity"])
        names = kernels.select("identity", *IDENTITY).unique("identity", maintain_order=True)
        groups = groups.join(names, on="identity", maintain_order="left").drop("identity")
    else:
        groups, codes = numbered(kernels, by)
    ns = pl.col("duration_ns")
    is_complete = has_all_counters()
    amounts = kernels.with_columns(pl.Series("group", codes)).select(
        "group",
        "query",
        ns,
        pl.lit(1, pl.Int64).alias("calls"),
        *COUNTERS[:3],
        *(pl.when(is_complete).then(pl.col(n)).alias(f"all_{n}") for n in COUNTERS[:3]),
        pl.when(is_complete).then(ns).otherwise(0).alias("complete_ns"),
        (pl.col("occupancy") * ns).alias("occupied"),
        pl.when(pl.col("occupancy").is_not_null()).then(ns).otherwise(0).alias("occupied_ns"),
    )
    if tuple(by) != IDENTITY:
        keys = ("group", "query")
        totals = [_sum(amounts, name) for name in amounts.columns if name not in keys]
        amounts = amounts.group_by(keys, maintain_order=True).agg(totals)
    amounts = with_absent(amounts, ["group"], kernels["query"].unique(maintain_order=True))
    time = trimmed(amounts, ["group"], "duration_ns")
    means = amounts.group_by("group", maintain_order=True).agg(pl.exclude("query").mean())
    both = time.join(means, on="group", how="left", maintain_order="left").drop("group")
    rows = pl.concat([groups, both], how="horizontal").to_dicts()
    return [_summed_row(row, by, ceilings) for row in rows]


def _sum(frame: pl.DataFrame, name: str) -> pl.Expr:
    """Return the sum of a column by group: null, not 0, where no value is known."""
    column = pl.col(name)
    if frame[name].null_count() in (0, frame.height):
        return column.sum() if frame[name].count() else column.first()
    return pl.when(column.count() > 0).then(column.sum()).alias(name)


def _summed_row(row: dict[str, Any], by: Sequence[str], ceilings: Ceilings) -> dict[str, Any]:
    counted = row["complete_ns"] / row["duration_ns"] if row["duration_ns"] else 0.0
    dram_bytes = row["all_dram_read_bytes"], row["all_dram_write_bytes"]
    occupied_ns = row["occupied_ns"]
    return {
        **{name: row[name] for name in by},
        "queries": row["n"],
        "calls": row["calls"],
        "time": row["mid"],
        "time_low": row["low"],
        "time_high": row["high"],
        **{name: row[name] for name in COUNTERS[:3]},
        "occupancy": row["occupied"] / occupied_ns if occupied_ns else None,
        "counted": counted,
        **point_of(row["all_flops"], dram_bytes, row["mid"] * counted, ceilings),
    }


def point_of(
    flops: float | None,
    dram_bytes: tuple[float | None, float | None],
    time_ns: float | None,
    ceilings: Ceilings,
) -> dict[str, Any]:
    """Return a roofline point: intensity, throughput, roof, memory_bound (XSP III-D3).

    Intensity is `flops` per byte of `dram_bytes` (read, written), null without bytes or where one
    is unknown; throughput (FLOP/s) is `flops` over `time_ns`; roof is the attainable throughput
    under `ceilings`; memory_bound compares the intensity, not the throughput, with the ideal one.
    """
    total = (
        None if dram_bytes[0] is None or dram_bytes[1] is None else dram_bytes[0] + dram_bytes[1]
    )
    intensity = share(flops, total)
    throughput = share(flops, None if time_ns is None else time_ns * 1e-9)
    moves_nothing = bool(flops) and total == 0 and ceilings.ideal_intensity is not None
    return {
        "intensity": intensity,
        "throughput": throughput,
        "roof": ceilings.peak if moves_nothing else ceilings.roof(intensity),
        "memory_bound": False if moves_nothing else ceilings.is_memory_bound(intensity),
    }


def layer_names(run: Run) -> dict[int | None, str]:
    """Return the names of the run's own layers by index; None is `UNATTRIBUTED`."""
    layers = run.layers.drop_nulls("layer").unique("layer", keep="first", maintain_order=True)
    return {None: UNATTRIBUTED, **dict(layers.select("layer", "name").iter_rows())}
