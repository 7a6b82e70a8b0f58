"""Batches: columns of many rows in one message. Any client can read them from this layout.

Columns are byte strings of little-endian integers, one value a row, all of the same count.
Times are nanoseconds from the attempt's `ClockOrigin.monotonic_ns`. A missing optional value is
-1. Sparse attributes are two lists: the rows with attributes, and their JSON texts. The batches of
one kind in an attempt are numbered by `sequence`: 0, 1, 2, …
"""

from enum import IntEnum

from pydantic import Field

from schemas.message import Fact
from schemas.values.identity import Token


class SpanKind(IntEnum):
    """Kind of work in a span, in addition to its level."""

    #: work of the host, and everything else
    HOST = 0
    #: a call that may start work on a device: cudaLaunchKernel, cudaMemcpyAsync, cudaGraphLaunch
    LAUNCH = 1
    #: a kernel on a device; `thread` is its stream, as for COPY and SET
    KERNEL = 2
    #: a copy of memory to, from or on a device
    COPY = 3
    #: setting memory on a device
    SET = 4
    #: an annotation without duration
    MARKER = 5
    #: one value of a sampled series, without duration: attributes {"value": 1.5, "unit": "W"}
    SAMPLE = 6


class TraceCaptured(Fact):
    """Spans of one attempt. Published by the agent.

    Columns: `span` int64, `parent` int64, `level` int8, `name` int32 (into `names`),
    `start_ns` int64, `duration_ns` int64, `thread` int32, `query` int32 (-1 unknown),
    `block` int16. A span's id is unique in its run; `parent` is set only if known at capture. Two
    columns may be empty, which means the default in every row: `kind` int8 (SpanKind, 0) and
    `correlation` int64 (-1 none), which a LAUNCH shares with the work that it started.
    """

    entity = "trace"
    happened = "captured"
    evaluation: Token
    run: Token
    attempt: int
    agent: Token
    sequence: int
    count: int
    #: the names in this batch: ids and texts; an id has one text within the attempt
    name_ids: tuple[int, ...]
    name_texts: tuple[str, ...]
    span: bytes
    parent: bytes
    level: bytes
    name: bytes
    start_ns: bytes
    duration_ns: bytes
    thread: bytes
    query: bytes
    block: bytes
    kind: bytes = b""
    correlation: bytes = b""
    attribute_rows: tuple[int, ...] = ()
    attribute_texts: tuple[bytes, ...] = ()


class QueriesAnswered(Fact):
    """Queries of one attempt. Published by the agent, or for remote load by the scheduler.

    Columns: `query` int32, `block` int16, `size` int32 (samples), `due_ns` int64 (-1 in a closed
    loop), `issued_ns`, `started_ns`, `ended_ns` int64, `service_ns` int64 (measured by the agent,
    -1 unknown), `status` int8 (0 answered, 1 failed, 2 lost), `failed` int32 (its samples without
    an answer, -1 where `status` applies to all; an empty column means none in any row). A query
    that is answered in part has status 0, its latency counts, and its error names each failed
    sample. Latency runs from `due_ns` (or `issued_ns`) to `ended_ns`.
    """

    entity = "query"
    happened = "answered"
    evaluation: Token
    run: Token
    attempt: int
    agent: Token
    sequence: int
    count: int
    query: bytes
    block: bytes
    size: bytes
    due_ns: bytes
    issued_ns: bytes
    started_ns: bytes
    ended_ns: bytes
    service_ns: bytes
    status: bytes
    failed: bytes = b""
    error_rows: tuple[int, ...] = ()
    error_texts: tuple[str, ...] = ()


class OutputsPredicted(Fact):
    """Outputs of the model, one row a sample, as JSON texts. Published by the agent."""

    entity = "output"
    happened = "predicted"
    evaluation: Token
    run: Token
    attempt: int
    agent: Token
    sequence: int
    count: int
    query: bytes = Field(description="int32, the query of the sample")
    sample: bytes = Field(description="int32, the sample's index in the dataset")
    texts: tuple[bytes, ...] = Field(description="JSON: features as {label, probability, …}")


Batch = TraceCaptured | QueriesAnswered | OutputsPredicted
