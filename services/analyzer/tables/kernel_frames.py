"""A run's kernels as a frame, with their counters, and their sums by anything.

A kernel is known by its layer, its name, and which of that name in its layer and query it is:
repeated kernels of one name are never mixed. Formulas: XSP III-D3. Sums are of latency, FLOP and
bytes; occupancy is weighted by latency; intensity and throughput are computed from the sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from mlscope.counts import many, verb
from schemas.batch import SpanKind
from services.analyzer.ceilings import Ceilings
from services.analyzer.derived import once
from services.analyzer.frames import Run
from services.analyzer.grouped import Codes, numbered, trimmed

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
    **dict.fromkeys(COUNTERS, pl.Float64),
}


def device_work(run: Run) -> pl.DataFrame:
    """Return what ran on devices in answered queries: kernels, copies and sets.

    In the order of their launches, as ncu has them; what has no known launch, of its start.

    query, layer (null: no layer is known), name, kind, start_ns, duration_ns, launch_ns (null: no
    launch is known), the counters (null: not counted), `nth`, and `identity`: a number for layer,
    name and nth, which make a kernel what it is.
    """
    return once(run, _device_work)


def _device_work(run: Run) -> pl.DataFrame:
    found: pl.DataFrame | None = getattr(run, "kernels", None)
    if found is None or not found.height:
        return pl.DataFrame(schema={**_COLUMNS, "nth": pl.UInt32, "identity": pl.Int64})
    if "counters" in found.columns and found.schema["counters"] == pl.Struct:
        found = found.unnest("counters")
    absent = [pl.lit(None, kind).alias(n) for n, kind in _COLUMNS.items() if n not in found.columns]
    kernel = pl.col("kind").fill_null(int(SpanKind.KERNEL))
    rising = (
        found.with_columns(absent)
        .select(pl.col(name).cast(kind) for name, kind in _COLUMNS.items())
        .with_columns(kernel)
        .sort(pl.coalesce("launch_ns", "start_ns"), "start_ns", maintain_order=True)
    )
    if run.queries.height:
        rising = rising.join(run.answered.select("query"), on="query", how="semi")
    return _identified(rising)


def _identified(rising: pl.DataFrame) -> pl.DataFrame:
    """Add `nth`, and `identity`: a number for each layer, name and nth."""
    # Numbers group far faster than texts.
    code = pl.col("name").cast(pl.Categorical).to_physical().cast(pl.Int64)
    layer = pl.col("layer").cast(pl.Int64).fill_null(-1) + 1
    coded = rising.with_columns(code.alias("code"))
    codes = int(coded["code"].max() or 0) + 1  # type: ignore[arg-type]
    found = coded.with_columns((layer * codes + pl.col("code")).alias("kind_of"))
    nth = pl.int_range(pl.len(), dtype=pl.UInt32).over("query", "kind_of").alias("nth")
    found = found.with_columns(nth)
    most = int(found["nth"].max() or 0) + 1  # type: ignore[arg-type]
    identity = (pl.col("kind_of") * most + pl.col("nth")).alias("identity")
    return found.with_columns(identity).drop("code", "kind_of")


def kernels_of(run: Run) -> pl.DataFrame:
    """Return the kernels among a run's device work."""
    return device_work(run).filter(pl.col("kind") == int(SpanKind.KERNEL))


@dataclass(frozen=True, slots=True)
class Counted:
    """A run's kernels with counters, wherever these were read, and what does not agree."""

    kernels: pl.DataFrame
    notes: tuple[str, ...]
    has_counters: bool


def counted(run: Run, replays: Sequence[Run]) -> Counted:
    """Return a run's kernels with the counters of their own run, else of a replay of it.

    A replay's kernels are joined by layer, name and order; where it knows no layers, by name and
    order in the query.
    """
    kernels = kernels_of(run)
    if _has_counters(kernels):
        return Counted(kernels, tuple(_missing(run, kernels)), True)
    for replay in replays:
        theirs = kernels_of(replay)
        if replay is not run and _has_counters(theirs):
            joined, strange = _joined(kernels, theirs)
            notes = _missing(run, joined)
            if strange:
                notes.append(
                    f"{replay.row.run}: {strange} of the kernels counted there did not run in "
                    f"{run.row.run}"
                )
            return Counted(joined, tuple(notes), True)
    return Counted(kernels, (), False)


def _has_counters(kernels: pl.DataFrame) -> bool:
    return any(kernels[name].count() for name in COUNTERS)


def _joined(kernels: pl.DataFrame, theirs: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return kernels with the counters of others, and how many of those others are not here."""
    # Its own session was traced too: what was seen there without counters is no kernel more.
    theirs = theirs.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in COUNTERS))
    nth = pl.int_range(pl.len()).over("query", "layer", "name").cast(theirs.schema["nth"])
    theirs = theirs.with_columns(nth.alias("nth"))
    key = list(IDENTITY)
    in_query = pl.int_range(pl.len(), dtype=pl.UInt32).over("query", "name").alias("in_query")
    if theirs["layer"].count() == 0 or _runs_alike(kernels, theirs):
        key = ["name", "in_query"]
        kernels, theirs = kernels.with_columns(in_query), theirs.with_columns(in_query)
    means = theirs.group_by(key).agg(pl.col(name).mean() for name in COUNTERS)
    strange = means.join(kernels, on=key, how="anti", nulls_equal=True).height
    joined = kernels.drop(COUNTERS).join(
        means, on=key, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.drop("in_query", strict=False), strange


def placed_as(replayed: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return a replay's kernels (name, layer, in order) with the layers that a traced run tells.

    By name and order in the query; with their own where the two did not run the same kernels.
    """
    if not _runs_alike(kernels, replayed):
        return replayed
    order = pl.int_range(pl.len(), dtype=pl.UInt32)
    known = kernels.select("name", "layer", order.over("query", "name").alias("in_query"))
    placed = known.unique(["name", "in_query"], keep="first", maintain_order=True)
    return (
        replayed.drop("layer")
        .with_columns(order.over("name").alias("in_query"))
        .join(placed, on=["name", "in_query"], how="left", maintain_order="left")
        .drop("in_query")
    )


def _runs_alike(kernels: pl.DataFrame, theirs: pl.DataFrame) -> bool:
    """Say whether each query runs as many kernels of each name as the replay's one does.

    Then their order tells which is which, where names of layers may not: a module called thrice
    (ResNet's relu) is one NVTX range, and what runs between two modules lies in their parent's.
    """
    once = theirs.group_by("name").agg(pl.len().alias("theirs"))
    counts = kernels.group_by("query", "name").agg(pl.len().alias("ours"))
    both = counts.join(once, on="name", how="full")
    return both.filter(pl.col("ours").ne_missing(pl.col("theirs"))).height == 0


def _missing(run: Run, kernels: pl.DataFrame) -> list[str]:
    told = kernels.filter(~_is_complete())
    if not told.height:
        return []
    part = told["duration_ns"].sum() / max(int(kernels["duration_ns"].sum()), 1)
    lacking = f"{told.height} of {many(kernels.height, 'kernel')}, {part:.1%} of their time"
    lack = verb(told.height, "lacks", "lack")
    return [f"{run.row.run}: {lacking}, {lack} some counter: sums hold those that have it"]


def _is_complete() -> pl.Expr:
    return pl.all_horizontal(pl.col(name).is_not_null() for name in COUNTERS[:3])


def sums(kernels: pl.DataFrame, by: Sequence[str], ceilings: Ceilings) -> list[dict[str, Any]]:
    """Return a map a group of kernels: what one query spends in it.

    `by`, queries (it is over), calls (a query), time with its interval, the counters, counted (the
    share of its time whose kernels have all counters), intensity, throughput, roof, memory_bound.
    Null where no kernel tells.
    """
    if not kernels.height:
        return []
    groups, codes = _groups(kernels, by)
    a_query = _by_query(kernels.with_columns(pl.Series("group", codes)), tuple(by) == IDENTITY)
    a_query = _with_absent(a_query, kernels["query"].unique())
    time = trimmed(a_query, ["group"], "duration_ns")
    amounts = [name for name in a_query.columns if name not in ("group", "query", "duration_ns")]
    means = a_query.group_by("group").agg(
        pl.col("duration_ns").mean(), *(pl.col(name).mean() for name in amounts)
    )
    both = time.join(means, on="group", how="left", maintain_order="left").drop("group")
    rows = pl.concat([groups, both], how="horizontal").to_dicts()
    return [_derived(row, by, ceilings) for row in rows]


def _groups(kernels: pl.DataFrame, by: Sequence[str]) -> tuple[pl.DataFrame, Codes]:
    if tuple(by) != IDENTITY:
        return numbered(kernels, by)
    found, codes = numbered(kernels, ["identity"])
    told = kernels.select("identity", *IDENTITY).unique("identity")
    return found.join(told, on="identity", maintain_order="left").drop("identity"), codes


def _by_query(kernels: pl.DataFrame, are_single: bool) -> pl.DataFrame:
    """Return the sums of each group and query; of single kernels each is its own sum."""
    ns = pl.col("duration_ns")
    prepared = kernels.select(
        "group",
        "query",
        ns,
        pl.lit(1, pl.Int64).alias("calls"),
        *COUNTERS[:3],
        *(pl.when(_is_complete()).then(pl.col(n)).alias(f"all_{n}") for n in COUNTERS[:3]),
        pl.when(_is_complete()).then(ns).otherwise(0).alias("complete_ns"),
        (pl.col("occupancy") * ns).alias("occupied"),
        pl.when(pl.col("occupancy").is_not_null()).then(ns).otherwise(0).alias("occupied_ns"),
    )
    if are_single:
        return prepared
    keys = ("group", "query")
    sums_ = [_sum(prepared, name) for name in prepared.columns if name not in keys]
    return prepared.group_by(keys).agg(sums_)


def _with_absent(a_query: pl.DataFrame, queries: pl.Series) -> pl.DataFrame:
    """Add zeros for the queries in which a group did not run; what no query tells stays null."""
    groups = a_query.select("group").unique(maintain_order=True)
    if a_query.height == groups.height * len(queries):
        return a_query
    pairs = groups.join(pl.DataFrame({"query": queries}), how="cross")
    amounts = [name for name in a_query.columns if name not in ("group", "query")]
    is_told = a_query.group_by("group").agg(pl.col(name).count() > 0 for name in amounts)
    absent = pairs.join(a_query, on=["group", "query"], how="anti", nulls_equal=True)
    zeros = absent.join(is_told, on="group", maintain_order="left").with_columns(
        pl.when(pl.col(name)).then(0).cast(a_query.schema[name]).alias(name) for name in amounts
    )
    return pl.concat([a_query, zeros.select(a_query.columns)])


def _sum(frame: pl.DataFrame, name: str) -> pl.Expr:
    """Return a sum that is null, not 0, where nothing is known."""
    column = pl.col(name)
    if frame[name].null_count() in (0, frame.height):
        return column.sum() if frame[name].count() else column.first()
    return pl.when(column.count() > 0).then(column.sum()).alias(name)


def _derived(row: dict[str, Any], by: Sequence[str], ceilings: Ceilings) -> dict[str, Any]:
    part = row["complete_ns"] / row["duration_ns"] if row["duration_ns"] else 0.0
    point = point_of(
        row["all_flops"],
        (row["all_dram_read_bytes"], row["all_dram_write_bytes"]),
        row["mid"] * part,
        ceilings,
    )
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
        "counted": part,
        **point,
    }


def point_of(
    flops: float | None,
    moved: tuple[float | None, float | None],
    time_ns: float | None,
    ceilings: Ceilings,
) -> dict[str, Any]:
    """Return a point of the roofline: intensity, throughput, roof, memory_bound (XSP III-D3).

    Intensity is FLOP over bytes read and written, null without bytes or where one is unknown;
    memory_bound compares it, never throughput, with the ideal one.
    """
    total = None if moved[0] is None or moved[1] is None else moved[0] + moved[1]
    intensity = flops / total if flops is not None and total else None
    throughput = flops / (time_ns * 1e-9) if flops is not None and time_ns else None
    moves_nothing = bool(flops) and total == 0 and ceilings.ideal_intensity is not None
    return {
        "intensity": intensity,
        "throughput": throughput,
        "roof": ceilings.peak if moves_nothing else ceilings.roof(intensity),
        "memory_bound": False if moves_nothing else ceilings.is_memory_bound(intensity),
    }


def layer_names(run: Run) -> dict[int | None, str]:
    """Return the layers' names by index, of the run's own layers."""
    told = run.layers.drop_nulls("layer").unique("layer", keep="first", maintain_order=True)
    return {None: UNATTRIBUTED, **dict(told.select("layer", "name").iter_rows())}
