"""A made-up trace as the JSON file that `torch.profiler` would write of it, byte for byte its way.

Layers become `cpu_op` events, launches `cuda_runtime`, kernels `kernel` and `gpu_memcpy`, each
launch with the two events of its arrow (`ac2g`), queries `user_annotation`, with what each stream
did for a query as `gpu_user_annotation`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from schemas.batch import SpanKind
from schemas.level import Level

_BASE_US = 4_411_415_151_581.624
_HEAD = """ {
    "schemaVersion": 1,
    "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320,
      "computeMajor": 9, "computeMinor": 0, "numSms": 132
    }
  ],
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
    "record_shapes": 1,
    "host_name": "made-up",
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1790857026000000000,
    "traceEvents": [
"""
_SPAN = """  {{
    "ph": "X",
    "cat": "{cat}",
    "name": "{name}",
    "pid": {pid},
    "tid": {tid},
    "ts": {ts:.3f},
    "dur": {dur:.3f}
    ,
    "args": {{
      {args}
    }}
  }}"""
_ARROW = """  {{
    "ph": "{ph}",
    "id": {id},
    "pid": {pid},
    "tid": {tid},
    "ts": {ts:.3f},
    "cat": "ac2g",
    "name": "ac2g"{more}
  }}"""
_KERNEL_ARGS = """"External id": {id},
      "queued": 0, "device": 0, "context": 1,
      "stream": {stream}, "correlation": {id},
      "registers per thread": 32,
      "shared memory": 0,
      "blocks per SM": 12.1212,
      "warps per SM": 48.4848,
      "grid": [1600, 1, 1],
      "block": [128, 1, 1],
      "est. achieved occupancy %": 76"""
_COPY_ARGS = """"External id": {id},
      "device": 0, "context": 1,
      "stream": {stream}, "correlation": {id},
      "bytes": 602112, "memory bandwidth (GB/s)": 21.5"""
_PID = 4242


def write(path: Path, spans: pl.DataFrame) -> int:
    """Write the spans of `benchmarks.tracing` as such a file; return how many events it has."""
    columns = ("level", "kind", "name", "start_ns", "duration_ns", "thread", "query", "correlation")
    events = 0
    with path.open("w") as file:
        file.write(_HEAD)
        for span in spans.select(columns).iter_rows(named=True):
            for text in _events(span):
                file.write(",\n" if events else "")
                file.write(text)
                events += 1
        for text in _annotations(spans):
            file.write(f",\n{text}")
            events += 1
        file.write('\n  ],"traceName": "/tmp/trace.json" }')
    return events


def _annotations(spans: pl.DataFrame) -> Iterator[str]:
    """Yield from when to when each stream worked for each query."""
    kinds = [int(SpanKind.KERNEL), int(SpanKind.COPY)]
    launches = spans.filter(pl.col("kind") == int(SpanKind.LAUNCH)).select(
        "correlation", "start_ns"
    )
    steps = spans.filter(pl.col("level") == int(Level.MODEL)).select("query", "start_ns")
    whose = launches.sort("start_ns").join_asof(steps.sort("start_ns"), on="start_ns")
    work = spans.filter(pl.col("kind").is_in(kinds)).drop("query")
    stretches = (
        work.join(whose.select("correlation", "query"), on="correlation")
        .group_by("query", "thread", maintain_order=True)
        .agg(
            pl.col("start_ns").min(),
            (pl.col("start_ns") + pl.col("duration_ns")).max().alias("end"),
        )
    )
    for query, stream, start, end in stretches.iter_rows():
        times = {"ts": _BASE_US + start / 1000, "dur": (end - start) / 1000}
        where = {"pid": 0, "tid": stream, "name": f"ProfilerStep#{query}"}
        args = f'"External id": {query}'
        yield _SPAN.format(**where, **times, cat="gpu_user_annotation", args=args)


def _events(span: dict[str, Any]) -> list[str]:
    times = {"ts": _BASE_US + span["start_ns"] / 1000, "dur": span["duration_ns"] / 1000}
    host: dict[str, Any] = {"pid": _PID, "tid": _PID, "name": span["name"], **times}
    number = span["correlation"]
    if span["level"] == int(Level.MODEL):
        name, args = f"ProfilerStep#{span['query']}", f'"External id": {span["query"]}'
        return [_SPAN.format(**host | {"name": name}, cat="user_annotation", args=args)]
    if span["level"] <= int(Level.FRAMEWORK):
        shapes = '"External id": 3,"Record function id": 0, "Input Dims": [[8, 64, 56, 56], []]'
        if span["level"] < int(Level.FRAMEWORK):
            return [_SPAN.format(**host, cat="user_annotation", args=shapes)]
        operator = host | {"name": f"aten::{span['name']}"}
        return [_SPAN.format(**operator, cat="cpu_op", args=shapes)]
    arrow = {"id": number, "ts": times["ts"]}
    if span["kind"] == int(SpanKind.LAUNCH):
        args = f'"External id": {number}, "cbid": 211, "correlation": {number}'
        begin = _ARROW.format(**arrow, ph="s", pid=_PID, tid=_PID, more="")
        return [_SPAN.format(**host, cat="cuda_runtime", args=args), begin]
    is_copy = span["kind"] == int(SpanKind.COPY)
    args = (_COPY_ARGS if is_copy else _KERNEL_ARGS).format(id=number, stream=span["thread"])
    device = host | {"pid": 0, "tid": span["thread"]}
    end = _ARROW.format(**arrow, ph="f", pid=0, tid=span["thread"], more=',\n    "bp": "e"')
    return [_SPAN.format(**device, cat="gpu_memcpy" if is_copy else "kernel", args=args), end]
