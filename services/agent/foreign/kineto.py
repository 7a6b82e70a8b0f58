"""torch.profiler's events as a recording.

`kineto_queries` says which stretches are queries.
Outermost operators (`cpu_op`) are layers, those inside them library calls; the runtime's and the
driver's calls, kernels, copies and sets are level system, joined by Kineto's correlation ids.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl

from mlscope.counts import verb
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.foreign.chrome import SHAPES, Events
from services.agent.foreign.kineto_queries import Queries, queries_of
from services.agent.foreign.kineto_shapes import nature_of
from services.agent.foreign.nested import doubts
from services.agent.foreign.recording import Recording, filled, rooted

OPERATORS, ANNOTATIONS = "cpu_op", "user_annotation"
_CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime")
_DEVICES = {
    "kernel": SpanKind.KERNEL,
    "gpu_memcpy": SpanKind.COPY,
    "gpu_memset": SpanKind.SET,
}
_KNOWN = (OPERATORS, ANNOTATIONS, *_CALLS, *_DEVICES)
_ARGUMENTS: Mapping[str, str] = MappingProxyType(
    {
        "correlation": "correlation",
        "stream": "stream",
        "device": "device",
        "bytes": "bytes",
        "grid": "grid",
        "block": "block_size",
        "registers per thread": "registers",
        "shared memory": "shared_bytes",
        "graph node id": "graph_node",
        **{name: name for name in SHAPES},
    }
)


def is_kineto(events: Events) -> bool:
    """Say whether torch.profiler wrote them."""
    return bool(events.frame["cat"].is_in([OPERATORS, "kernel", *_CALLS]).any())


def recording_of(events: Events, *, attributes: bool = True) -> Recording:
    """Return torch.profiler's events as a recording; without `attributes` sooner."""
    told, notes = _stamped(events.frame)
    origin = int(told["start_ns"].min() or 0)  # type: ignore[arg-type]
    told = told.with_columns(pl.col("start_ns") - origin)
    queries = _queries(told)
    roots = rooted(queries.frame, pl.col("name"))
    is_device = pl.col("cat").is_in(list(_DEVICES))
    devices = told.filter(is_device)
    parts = [
        roots,
        _annotations(told, queries),
        _operators(told.filter(pl.col("cat") == OPERATORS), roots, attributes=attributes),
        _calls(told.filter(pl.col("cat").is_in(_CALLS)), devices),
        _devices(devices, attributes=attributes),
    ]
    spans = pl.concat([filled(part.with_columns(pl.lit(0).alias("span"))) for part in parts])
    spans = spans.sort("start_ns", "level", maintain_order=True).drop("span")
    return Recording(
        tool="kineto",
        spans=filled(spans),
        framework="pytorch",
        host=events.host or "imported",
        device="cuda" if devices.height else "cpu",
        accelerator=events.accelerator,
        epoch_ns=events.base_ns + origin if events.base_ns else 0,
        notes=(*notes, *queries.notes, *doubts(events)),
    )


def _stamped(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Return known events with ns stamps and flat arguments, and what was left out."""
    known = frame.filter(pl.col("cat").is_in(_KNOWN) & pl.col("ts").is_not_null())
    left_out = frame.height - known.height
    are = verb(left_out, "event of another category was", "events of other categories were")
    notes = [f"{left_out} {are} left out"] if left_out else []
    fields = {each.name for each in frame.schema["args"].fields}  # type: ignore[attr-defined]
    ns = [
        (pl.col(of) * 1000).round().cast(pl.Int64).fill_null(0).alias(name)
        for of, name in (("ts", "start_ns"), ("dur", "duration_ns"))
    ]
    return known.select(
        "cat",
        pl.col("name").fill_null("?"),
        *ns,
        pl.col("tid").cast(pl.Int64, strict=False).fill_null(-1).alias("thread"),
        *(
            (pl.col("args").struct.field(of) if of in fields else pl.lit(None)).alias(name)
            for of, name in _ARGUMENTS.items()
        ),
    ).with_columns(pl.col("correlation").cast(pl.Int64).fill_null(-1)), notes


def _queries(told: pl.DataFrame) -> Queries:
    hosts = told.filter(~pl.col("cat").is_in(list(_DEVICES)))
    annotations = told.filter(pl.col("cat") == ANNOTATIONS)
    return queries_of(annotations, hosts if hosts.height else told)


def _annotations(told: pl.DataFrame, queries: Queries) -> pl.DataFrame:
    """Return the other annotations, as operators of the pipeline."""
    is_other = (pl.col("cat") == ANNOTATIONS) & ~pl.col("name").is_in(queries.names)
    others = told.filter(is_other)
    return others.select(
        "name", "start_ns", "duration_ns", "thread", pl.lit(int(Level.MODEL)).alias("level")
    )


def _operators(told: pl.DataFrame, roots: pl.DataFrame, *, attributes: bool) -> pl.DataFrame:
    """Return operators: outermost ones as layers."""
    rising = told.sort("thread", "start_ns", -pl.col("duration_ns"), maintain_order=True)
    start, end = _ends(rising)
    outer = _outermost(rising["thread"].to_numpy(), start, end)
    query = _query_at(roots.filter(pl.col("level") == int(Level.APPLICATION)), start, end)
    layers = rising.with_columns(pl.Series("query", query)).filter(outer).sort("start_ns")
    nature = pl.struct("index", pl.col("name").str.split("::").list.last().alias("type"))
    numbered = layers.with_columns(
        _places(layers),
        pl.lit(int(Level.FRAMEWORK)).alias("level"),
        _shaped(layers) if attributes else pl.lit(None).alias("more"),
    ).with_columns(nature.struct.json_encode().alias("attributes"))
    noted = pl.col("attributes").str.strip_suffix("}") + pl.col("more")
    numbered = numbered.with_columns(pl.coalesce(noted, "attributes").alias("attributes")).select(
        "name", "start_ns", "duration_ns", "thread", "query", "level", "attributes"
    )
    inner = rising.filter(~pl.Series(outer)).select(
        "name", "start_ns", "duration_ns", "thread", pl.lit(int(Level.LIBRARY)).alias("level")
    )
    return pl.concat([filled(numbered), filled(inner)])


def _places(layers: pl.DataFrame) -> pl.Series:
    """Return each layer's `index`: one for the nth of a name in its query, by first appearance.

    Not its place in the query: the first step often has an operator that others do not have.
    """
    nth = pl.int_range(pl.len()).over("query", "name").alias("nth")
    keys = layers.select("name", nth)
    places = keys.unique(maintain_order=True).with_row_index("index")
    joined = keys.join(places, on=["name", "nth"], how="left", maintain_order="left")
    return joined["index"].cast(pl.Int64)


def _shaped(layers: pl.DataFrame) -> pl.Series:
    """Return of each layer how its attributes go on and end, null where no shapes are known."""
    columns = ("name", *SHAPES)
    known = layers.select(columns).filter(pl.col(SHAPES[0]).is_not_null()).unique()
    if not known.height:
        return pl.Series("more", [None] * layers.height, pl.String)
    found = (nature_of(*(text or "" for text in row)) for row in known.iter_rows())
    texts = [f",{json.dumps(each)[1:]}" if each else None for each in found]
    told = known.with_columns(pl.Series("more", texts, pl.String))
    joined = layers.join(told, on=columns, how="left", nulls_equal=True, maintain_order="left")
    return joined["more"]


def _calls(told: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Return API calls; those that device work names, or that launch, are launches."""
    started = pl.col("correlation").is_in(devices["correlation"].unique().implode())
    launches = pl.col("name").str.contains("Launch") | (started & (pl.col("correlation") > 0))
    kind = pl.when(launches).then(int(SpanKind.LAUNCH)).otherwise(int(SpanKind.HOST))
    return told.select(
        "name",
        "start_ns",
        "duration_ns",
        "thread",
        "correlation",
        kind.alias("kind"),
        pl.lit(int(Level.SYSTEM)).alias("level"),
    )


def _devices(told: pl.DataFrame, *, attributes: bool) -> pl.DataFrame:
    """Return what ran on devices; their thread is their stream."""
    kind = pl.col("cat").replace_strict({n: int(k) for n, k in _DEVICES.items()}, default=2)
    sizes = pl.col("block_size").alias("block")
    nature = ("device", "grid", sizes, "registers", "shared_bytes", "bytes", "graph_node")
    return told.select(
        "name",
        "start_ns",
        "duration_ns",
        pl.coalesce("stream", "thread").alias("thread"),
        "correlation",
        kind.alias("kind"),
        pl.lit(int(Level.SYSTEM)).alias("level"),
        (pl.struct(nature).struct.json_encode() if attributes else pl.lit(None)).alias(
            "attributes"
        ),
    )


Ns = npt.NDArray[np.int64]


def _ends(spans: pl.DataFrame) -> tuple[Ns, Ns]:
    start = spans["start_ns"].to_numpy()
    return start, start + spans["duration_ns"].to_numpy()


def _outermost(thread: Ns, start: Ns, end: Ns) -> npt.NDArray[np.bool_]:
    """Return which lie in no other of their thread; sorted by thread, start, longest first."""
    if not len(start):
        return np.zeros(0, np.bool_)
    reached = pl.col("end").cum_max().shift(1).over("thread")
    outermost = (pl.col("start") >= reached).fill_null(value=True)
    spans = pl.DataFrame({"thread": thread, "start": start, "end": end})
    return spans.select(outermost).to_series().to_numpy()


def _query_at(roots: pl.DataFrame, start: Ns, end: Ns) -> Ns:
    """Return the query in whose root each span lies, -1 in none; roots come one after another."""
    begun, ended = _ends(roots.sort("start_ns"))
    place = np.searchsorted(begun, start, side="right") - 1
    inside = (place >= 0) & (end <= ended[np.maximum(place, 0)]) if len(begun) else place < -1
    return np.where(inside, place, -1)
