"""torch.profiler's events as a recording.

`kineto_queries` finds the queries. Outermost operators (`cpu_op`) are layers, those inside them
library calls; calls of the runtime and the driver, kernels, copies and sets are level system,
joined by Kineto's correlation ids.
"""

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl

from mlscope.counts import verb
from mlscope.importing.events import SHAPES, Events
from mlscope.importing.kineto.layers import layers_and_library_calls
from mlscope.importing.kineto.queries import queries_of
from mlscope.importing.recording import Recording, api_calls, merged, query_spans, time_columns
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
            *layers_and_library_calls(operators, roots, attributes=attributes),
            api_calls(rows.filter(pl.col("cat").is_in(_CALLS)), devices["correlation"]),
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
