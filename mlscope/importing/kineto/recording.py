"""torch.profiler's events as a recording.

`kineto_queries` finds the queries. Outermost operators (`cpu_op`) are layers, those inside them
library calls; calls of the runtime and the driver, kernels, copies and sets are level system,
joined by Kineto's correlation ids.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl

from mlscope.counts import verb
from mlscope.importing.events import SHAPES, Events
from mlscope.importing.kineto.queries import queries_of
from mlscope.importing.kineto.shapes import work_of
from mlscope.importing.recording import Recording, merged, query_spans, time_columns
from schemas.batch import SpanKind
from schemas.level import Level

OPERATORS, ANNOTATIONS = "cpu_op", "user_annotation"
_CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime")
_DEVICE_KINDS = {
    "kernel": SpanKind.KERNEL,
    "gpu_memcpy": SpanKind.COPY,
    "gpu_memset": SpanKind.SET,
}
_CATEGORIES = (OPERATORS, ANNOTATIONS, *_CALLS, *_DEVICE_KINDS)
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
"""Columns by the arguments of Kineto that they hold."""

_Ns = npt.NDArray[np.int64]


def is_kineto(events: Events) -> bool:
    """Say whether torch.profiler wrote them."""
    return bool(events.frame["cat"].is_in([OPERATORS, "kernel", *_CALLS]).any())


def recording_of(events: Events, *, attributes: bool = True) -> Recording:
    """Return torch.profiler's events as a recording; faster without `attributes`."""
    rows, notes = _known_events(events.frame)
    origin_ns = int(rows["start_ns"].min() or 0)  # type: ignore[arg-type]
    rows = rows.with_columns(pl.col("start_ns") - origin_ns)
    is_device = pl.col("cat").is_in(list(_DEVICE_KINDS))
    annotations, devices = rows.filter(pl.col("cat") == ANNOTATIONS), rows.filter(is_device)
    hosts = rows.filter(~is_device)
    queries = queries_of(annotations, hosts if hosts.height else rows)
    roots = query_spans(queries.frame, pl.col("name"))
    operators = rows.filter(pl.col("cat") == OPERATORS)
    pipeline_operators = annotations.filter(~pl.col("name").is_in(queries.names)).select(
        "name", "start_ns", "duration_ns", "thread", pl.lit(int(Level.MODEL)).alias("level")
    )
    spans = merged(
        [
            roots,
            pipeline_operators,
            *_layers_and_library_calls(operators, roots, attributes=attributes),
            _api_calls(rows.filter(pl.col("cat").is_in(_CALLS)), devices),
            _device_work(devices, attributes=attributes),
        ]
    )
    return Recording(
        tool="kineto",
        spans=spans,
        framework="pytorch",
        host=events.host or "imported",
        device="cuda" if devices.height else "cpu",
        accelerator=events.accelerator,
        epoch_ns=events.base_ns + origin_ns if events.base_ns else 0,
        notes=(*notes, *queries.notes, *events.warnings),
    )


def _known_events(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Return events of known categories with times in ns and flat arguments, and notes."""
    events = frame.filter(pl.col("cat").is_in(_CATEGORIES) & pl.col("ts").is_not_null())
    left_out = frame.height - events.height
    were = verb(left_out, "event of another category was", "events of other categories were")
    notes = [f"{left_out} {were} left out"] if left_out else []
    fields = {field.name for field in frame.schema["args"].fields}  # type: ignore[attr-defined]
    rows = events.select(
        "cat",
        pl.col("name").fill_null("?"),
        *time_columns(("ts", "start_ns"), ("dur", "duration_ns")),
        pl.col("tid").cast(pl.Int64, strict=False).fill_null(-1).alias("thread"),
        *(
            (pl.col("args").struct.field(argument) if argument in fields else pl.lit(None)).alias(
                name
            )
            for argument, name in _ARGUMENTS.items()
        ),
    )
    return rows.with_columns(pl.col("correlation").cast(pl.Int64).fill_null(-1)), notes


def _layers_and_library_calls(
    operators: pl.DataFrame, roots: pl.DataFrame, *, attributes: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the outermost operators as layers, and those inside them as library calls."""
    ordered = operators.sort("thread", "start_ns", -pl.col("duration_ns"), maintain_order=True)
    start, end = _starts_and_ends(ordered)
    is_outermost = _outermost(ordered["thread"].to_numpy(), start, end)
    queries = roots.filter(pl.col("level") == int(Level.APPLICATION))
    query = pl.Series("query", _query_of(queries, start, end))
    layers = ordered.with_columns(query).filter(is_outermost).sort("start_ns")
    # A layer's index is that of the nth of its name in a query, by first appearance, not its place
    # in the query: the first step often has an operator that others do not have.
    nth = pl.int_range(pl.len()).over("query", "name").alias("nth")
    keys = layers.select("name", nth)
    indices = keys.unique(maintain_order=True).with_row_index("index")
    indexed = keys.join(indices, on=["name", "nth"], how="left", maintain_order="left")
    described = pl.struct("index", pl.col("name").str.split("::").list.last().alias("type"))
    layers = layers.with_columns(
        indexed["index"].cast(pl.Int64),
        pl.lit(int(Level.FRAMEWORK)).alias("level"),
        _shape_attributes(layers) if attributes else pl.lit(None).alias("shape_attributes"),
    ).with_columns(described.struct.json_encode().alias("attributes"))
    with_shapes = pl.col("attributes").str.strip_suffix("}") + pl.col("shape_attributes")
    layers = layers.with_columns(pl.coalesce(with_shapes, "attributes").alias("attributes")).select(
        "name", "start_ns", "duration_ns", "thread", "query", "level", "attributes"
    )
    library_calls = ordered.filter(~pl.Series(is_outermost)).select(
        "name", "start_ns", "duration_ns", "thread", pl.lit(int(Level.LIBRARY)).alias("level")
    )
    return layers, library_calls


def _shape_attributes(layers: pl.DataFrame) -> pl.Series:
    """Return the remainder of each layer's attributes (JSON), null where no shapes are known."""
    columns, name = ("name", *SHAPES), "shape_attributes"
    shaped = layers.select(columns).filter(pl.col(SHAPES[0]).is_not_null()).unique()
    if not shaped.height:
        return pl.Series(name, [None] * layers.height, pl.String)
    works = (work_of(*(text or "" for text in row)) for row in shaped.iter_rows())
    texts = [f",{json.dumps(work)[1:]}" if work else None for work in works]
    described = shaped.with_columns(pl.Series(name, texts, pl.String))
    joined = layers.join(described, on=columns, how="left", nulls_equal=True, maintain_order="left")
    return joined[name]


def _api_calls(calls: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Return API calls; those whose names or correlated device work say so are launches."""
    has_work = pl.col("correlation").is_in(devices["correlation"].unique().implode())
    is_launch = pl.col("name").str.contains("Launch") | (has_work & (pl.col("correlation") > 0))
    kind = pl.when(is_launch).then(int(SpanKind.LAUNCH)).otherwise(int(SpanKind.HOST))
    return calls.select(
        "name",
        "start_ns",
        "duration_ns",
        "thread",
        "correlation",
        kind.alias("kind"),
        pl.lit(int(Level.SYSTEM)).alias("level"),
    )


def _device_work(devices: pl.DataFrame, *, attributes: bool) -> pl.DataFrame:
    """Return kernels, copies and sets; their thread is their stream."""
    kinds = {category: int(kind) for category, kind in _DEVICE_KINDS.items()}
    kind = pl.col("cat").replace_strict(kinds, default=int(SpanKind.KERNEL))
    sizes = pl.col("block_size").alias("block")
    described = pl.struct(
        "device", "grid", sizes, "registers", "shared_bytes", "bytes", "graph_node"
    )
    json_attributes = described.struct.json_encode() if attributes else pl.lit(None)
    return devices.select(
        "name",
        "start_ns",
        "duration_ns",
        pl.coalesce("stream", "thread").alias("thread"),
        "correlation",
        kind.alias("kind"),
        pl.lit(int(Level.SYSTEM)).alias("level"),
        json_attributes.alias("attributes"),
    )


def _starts_and_ends(spans: pl.DataFrame) -> tuple[_Ns, _Ns]:
    start = spans["start_ns"].to_numpy()
    return start, start + spans["duration_ns"].to_numpy()


def _outermost(thread: _Ns, start: _Ns, end: _Ns) -> npt.NDArray[np.bool_]:
    """Return which spans lie in no other of their thread.

    Spans are ordered by `thread`, `start` and, of equal starts, the latest `end` first.
    """
    if not len(start):
        return np.zeros(0, np.bool_)
    spans = pl.DataFrame({"thread": thread, "start": start, "end": end})
    previous_end = pl.col("end").cum_max().shift(1).over("thread")
    is_outermost = (pl.col("start") >= previous_end).fill_null(value=True)
    return spans.select(is_outermost).to_series().to_numpy()


def _query_of(queries: pl.DataFrame, start: _Ns, end: _Ns) -> _Ns:
    """Return the query that each span lies in, -1 for none; queries do not overlap."""
    query_start, query_end = _starts_and_ends(queries.sort("start_ns"))
    if not len(query_start):
        return np.full(len(start), -1, np.int64)
    query = np.searchsorted(query_start, start, side="right") - 1
    is_inside = (query >= 0) & (end <= query_end[np.maximum(query, 0)])
    return np.where(is_inside, query, -1)
