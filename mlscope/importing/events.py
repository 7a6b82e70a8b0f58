"""The events of a Chrome trace as frames. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import polars as pl

from mlscope.counts import verb

ARGUMENTS = pl.Struct(
    {
        "correlation": pl.Int64,
        "stream": pl.Int64,
        "device": pl.Int64,
        "bytes": pl.Int64,
        "registers per thread": pl.Int64,
        "shared memory": pl.Int64,
        "grid": pl.List(pl.Int64),
        "block": pl.List(pl.Int64),
        "graph node id": pl.Int64,
        # of metadata, `ph` M: the name of a process or thread
        "name": pl.String,
        # of mlscope's own exports: every span as it is stored
        "span": pl.Int64,
        "parent": pl.Int64,
        "level": pl.Int64,
        "kind": pl.Int64,
        "query": pl.Int64,
        "run_block": pl.Int64,
        "thread": pl.Int64,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "attributes": pl.String,
    }
)
EVENT_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "ph": pl.String,
        "cat": pl.String,
        "name": pl.String,
        "pid": pl.String,
        "tid": pl.String,
        "ts": pl.Float64,
        "dur": pl.Float64,
        "id": pl.String,
        "id2": pl.Struct({"local": pl.String, "global": pl.String}),
        "scope": pl.String,
        "args": ARGUMENTS,
    }
)
"""Columns of events; times are microseconds from the file's own base."""

SHAPES = ("Input Dims", "Input type", "Concrete Inputs")
"""Arguments that torch.profiler writes with `record_shapes=True`, read as JSON texts."""

_NO_NAMES = pl.DataFrame(schema={"ph": pl.String, "name": pl.String, "pid": pl.String})


@dataclass(frozen=True, slots=True)
class Events:
    """A file's complete events (EVENT_SCHEMA), its other events by kind, and its head's fields."""

    frame: pl.DataFrame
    #: points in time, and metadata with the names of processes and threads
    instants: pl.DataFrame = field(default_factory=lambda: _NO_NAMES)
    names: pl.DataFrame = field(default_factory=lambda: _NO_NAMES)
    #: begins without end, ends without begin
    unpaired: int = 0
    #: complete events without a time, or with one beyond what spans hold
    untimed: int = 0
    base_ns: int = 0
    accelerator: str = ""
    host: str = ""
    #: the version of mlscope's exports, '' in other files; only they have the fields below
    mlscope: str = ""
    #: whether spans are missing at the end
    is_cut: bool = False
    framework: str = ""
    device: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return caveats that hold for the events of any tool."""
        pairs = verb(
            self.unpaired,
            "begin without end, or end without begin, was",
            "begins without end, and ends without begin, were",
        )
        times = verb(
            self.untimed, "event without a valid time was", "events without a valid time were"
        )
        counts = ((self.unpaired, pairs), (self.untimed, times))
        return tuple(f"{count} {events} left out" for count, events in counts if count)
