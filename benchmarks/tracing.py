"""A made-up trace of a real shape: queries, layers in them, launches in layers, kernels on streams.

Sizes are those of a vision model of a hundred layers. Kernels start a while after their launch, in
order on each of two streams that overlap; a share of them is copies. Everything follows from the
sizes and the seed.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.batch import SpanKind
from schemas.level import Level
from services.analyzer.frames.evaluation import Run, RunRow
from services.analyzer.frames.row_schemas import (
    LAYER_SCHEMA,
    OUTPUT_SCHEMA,
    QUERY_SCHEMA,
    SPAN_SCHEMA,
)

Columns = dict[str, npt.NDArray[np.int64]]

TYPES = ("Conv2d", "BatchNorm2d", "ReLU", "Linear", "MaxPool2d")
KERNELS = (
    "void cutlass_80_simt_sgemm_128x64_8x5_nn_align1<float>(Params)",
    "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true>(Params)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::relu>(int, Functor)",
    "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x32",
    "void at::native::max_pool_forward_nchw<float, int>(int, float const*)",
)
COPY_NAME = "Memcpy HtoD (Pinned -> Device)"
GAP_NS = 400
DRAINED_NS = 15_000
"""How long a query waits for its last kernels."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many of each: launches = queries x layers x launches a layer."""

    queries: int = 1000
    layers: int = 100
    launches: int = 10

    @property
    def all_launches(self) -> int:
        """Launches, and so kernels, in all."""
        return self.queries * self.layers * self.launches


def spans_of(shape: Shape, run_key: int = 1, seed: int = 7) -> pl.DataFrame:
    """Return the spans (row_schemas.SPAN_SCHEMA) by their starts; no parent is known."""
    random = np.random.default_rng(seed)
    launch = _launches(shape, random)
    layer = _around(launch, shape.launches)
    predict = _around(layer, shape.layers)
    parts = [
        _part(predict, Level.APPLICATION, SpanKind.HOST, widened_ns=DRAINED_NS + GAP_NS),
        _part(predict, Level.MODEL, SpanKind.HOST, widened_ns=DRAINED_NS),
        _part(layer, Level.FRAMEWORK, SpanKind.HOST, widened_ns=100),
        _part(launch, Level.SYSTEM, SpanKind.LAUNCH),
        _part(_kernels(launch, random), Level.SYSTEM, SpanKind.KERNEL),
    ]
    frame = pl.concat(parts).sort("start_ns", maintain_order=True)
    return frame.with_columns(
        pl.lit(run_key, pl.Int64).alias("run_key"), pl.int_range(pl.len()).alias("span")
    ).select([pl.col(name).cast(kind) for name, kind in SPAN_SCHEMA.items()])


def run_of(shape: Shape, run_key: int = 1, level: Level = Level.SYSTEM) -> Run:
    """Return a run that has these spans, and queries and layers that fit them."""
    spans = spans_of(shape, run_key).filter(pl.col("level") <= int(level))
    roots = spans.filter(pl.col("level") == int(Level.APPLICATION)).sort("query")
    begun, ended = pl.col("start_ns"), pl.col("start_ns") + pl.col("duration_ns")
    queries = roots.select(
        "run_key",
        "query",
        "block",
        pl.lit(8).alias("size"),
        pl.lit(None).alias("due_ns"),
        begun.alias("issued_ns"),
        begun.alias("started_ns"),
        ended.alias("ended_ns"),
        pl.col("duration_ns").alias("service_ns"),
        pl.lit(0).alias("status"),
    )
    row = RunRow(run_key, f"r{run_key}", level=int(level), batch_size=8, model="made-up")
    return Run(
        row,
        queries=_as(queries, dict(QUERY_SCHEMA)),
        spans=spans,
        layers=layers_of(shape, run_key),
        outputs=pl.DataFrame(schema=dict(OUTPUT_SCHEMA)),
    )


def _as(frame: pl.DataFrame, schema: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    missing = [pl.lit(None).alias(name) for name in schema if name not in frame.columns]
    full = frame.with_columns(missing)
    return full.select([pl.col(name).cast(kind) for name, kind in schema.items()])


def layers_of(shape: Shape, run_key: int) -> pl.DataFrame:
    """Return the layers (row_schemas.LAYER_SCHEMA) of the made-up network."""
    index = np.arange(shape.layers)
    layers = pl.DataFrame(
        {
            "run_key": np.full(shape.layers, run_key),
            "layer": index,
            "name": [layer_name(int(number)) for number in index],
            "type": [TYPES[number % len(TYPES)] for number in index],
            "shape": ["[8, 64, 56, 56]"] * shape.layers,
            "provider": ["cuda"] * shape.layers,
            "original": ["[]"] * shape.layers,
            "memory_bytes": index * 4096 + 1024,
            "flops": index * 1_000_000,
            "bytes_read": index * 8192,
            "bytes_written": index * 4096,
            "memory_kind": ["outputs"] * shape.layers,
        }
    )
    return _as(layers, dict(LAYER_SCHEMA))


def layer_name(index: int) -> str:
    """Return the name of a layer."""
    return f"features.{index // 5}.{index % 5}"


def _launches(shape: Shape, random: np.random.Generator) -> Columns:
    count = shape.all_launches
    row = np.arange(count, dtype=np.int64)
    durations = random.integers(2_000, 6_000, count)
    in_layer = row % shape.launches == 0
    in_query = row % (shape.launches * shape.layers) == 0
    gaps = GAP_NS + in_layer * GAP_NS + in_query * 40_000
    starts = np.cumsum(gaps) + np.cumsum(durations) - durations
    return {
        "start_ns": starts,
        "end_ns": starts + durations,
        "query": row // (shape.launches * shape.layers),
        "layer": row // shape.launches % shape.layers,
        "correlation": row + 1,
    }


def _around(inner: Columns, count: int) -> Columns:
    """Return one span around each `count` of the inner."""
    return {
        "start_ns": inner["start_ns"][::count],
        "end_ns": inner["end_ns"][count - 1 :: count],
        "query": inner["query"][::count],
        "layer": inner["layer"][::count],
        "correlation": np.full(len(inner["query"][::count]), -1, np.int64),
    }


def _kernels(launch: Columns, random: np.random.Generator) -> Columns:
    """Return what the launches started: in order on its stream, after its launch began."""
    count = len(launch["start_ns"])
    durations = random.integers(1_000, 6_000, count)
    stream = (random.random(count) < 0.1).astype(np.int64)
    starts = np.empty(count, np.int64)
    for device in (0, 1):
        mine = stream == device
        spent = np.cumsum(durations[mine]) - durations[mine]
        ready = launch["start_ns"][mine] + 5_000
        starts[mine] = np.maximum.accumulate(ready - spent) + spent
    return {
        "start_ns": starts,
        "end_ns": starts + durations,
        "query": np.full(count, -1, np.int64),
        "layer": launch["layer"],
        "correlation": launch["correlation"],
        "stream": stream * 13 + 7,
    }


def _part(of: Columns, level: Level, kind: SpanKind, widened_ns: int = 0) -> pl.DataFrame:
    is_device = kind == SpanKind.KERNEL
    # Every hundredth kernel is a copy.
    is_copy = is_device & (of["correlation"] % 100 == 0)
    stream = of.get("stream", np.full(len(of["start_ns"]), -1, np.int64))
    return pl.DataFrame(
        {
            "parent": pl.Series([None] * len(stream), dtype=pl.Int64),
            "level": np.full(len(stream), int(level)),
            "name": _names(of, level, kind),
            "start_ns": of["start_ns"] - widened_ns,
            "duration_ns": of["end_ns"] - of["start_ns"] + 2 * widened_ns,
            "thread": stream if is_device else np.ones(len(stream), np.int64),
            "query": np.where(kind == SpanKind.HOST, of["query"], -1),
            "block": np.zeros(len(stream), np.int64),
            "layer": pl.Series(of["layer"]) if level == Level.FRAMEWORK else None,
            "kind": np.where(is_copy, int(SpanKind.COPY), int(kind)),
            "correlation": pl.Series(of["correlation"]).replace(-1, None),
            "device": pl.Series(np.zeros(len(stream), np.int64)) if is_device else None,
            "stream": pl.Series(stream) if is_device else None,
        },
        schema_overrides={"layer": pl.Int64, "device": pl.Int64, "stream": pl.Int64},
    )


def _names(of: Columns, level: Level, kind: SpanKind) -> pl.Series:
    if level < Level.FRAMEWORK:
        name = "query" if level == Level.APPLICATION else "predict"
        return pl.Series([name], dtype=pl.String).new_from_index(0, len(of["query"]))
    if level == Level.FRAMEWORK:
        layer_names = [layer_name(number) for number in range(int(of["layer"].max()) + 1)]
        return pl.Series(layer_names, dtype=pl.String).gather(of["layer"])
    if kind == SpanKind.LAUNCH:
        calls = pl.Series(["cudaLaunchKernel", "cudaMemcpyAsync"], dtype=pl.String)
        return calls.gather((of["correlation"] % 100 == 0).astype(np.int64))
    kernels = pl.Series([*KERNELS, COPY_NAME], dtype=pl.String)
    is_copy = of["correlation"] % 100 == 0
    return kernels.gather(np.where(is_copy, len(KERNELS), of["correlation"] % len(KERNELS)))
