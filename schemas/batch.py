"""Hot batches: columns of many rows in one message, readable from this layout by any client.

Columns are byte strings of little-endian integers, one value a row, all of the same count.
Times are nanoseconds from the attempt's `ClockOrigin.monotonic_ns`. An absent optional value
is -1. Sparse attributes are two lists: the rows that have some, and their JSON texts.
A batch is one of `sequence` 0, 1, 2, … of its kind in its attempt.
"""

from enum import IntEnum

from pydantic import Field

from schemas.identity import Token
from schemas.message import Fact


class SpanKind(IntEnum):
    """What a span is of, where its level alone does not say it."""

    #: work of the host: all that is not one of the others
    HOST = 0
    #: a call that may start work on a device: cudaLaunchKernel, cudaMemcpyAsync, cudaGraphLaunch
    LAUNCH = 1
    #: a kernel executing on a device; `thread` is its stream, likewise of COPY and SET
    KERNEL = 2
    #: bytes copied to, from or on a device
    COPY = 3
    #: memory set on a device
    SET = 4
    #: an annotation without length
    MARKER = 5
    #: one value of a sampled series: no length, attributes {"value": 1.5, "unit": "W"}
    SAMPLE = 6


class TraceCaptured(Fact):
    """Spans of one attempt. Said by the agent.

    Columns: `span` int64, `parent` int64, `level` int8, `name` int32 (into `names`),
    `start_ns` int64, `duration_ns` int64, `thread` int32, `query` int32 (-1 unknown),
    `block` int16. A span's id is unique in its run; `parent` is set only where known at capture.
    Two columns may be empty, which is the default in every row: `kind` int8 (SpanKind, 0) and
    `correlation` int64 (-1 none), shared by a LAUNCH and what it started.
    """

    entity = "trace"
    happened = "captured"
    evaluation: Token
    run: Token
    attempt: int
    agent: Token
    sequence: int
    count: int
    #: names used in this batch: id to text; ids are stable within the attempt
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
    """Queries of one attempt. Said by the agent (local) or the scheduler that issued them (remote).

    Columns: `query` int32, `block` int16, `size` int32 (samples), `due_ns` int64 (-1 in a closed
    loop), `issued_ns`, `started_ns`, `ended_ns` int64, `service_ns` int64 (the agent's own, -1 when
    unknown), `status` int8 (0 answered, 1 failed, 2 lost), `failed` int32 (samples in it without
    an answer, -1 where `status` says it all; empty: in no row). A query answered in part has status
    0, its latency counts, and its error tells of each bad sample. Latency runs from `due_ns` (or
    `issued_ns`) to `ended_ns`.
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
    """What came out, one row a sample, as JSON texts. Said by the agent."""

    entity = "output"
    happened = "predicted"
    evaluation: Token
    run: Token
    attempt: int
    agent: Token
    sequence: int
    count: int
    query: bytes = Field(description="int32, the query that carried the sample")
    sample: bytes = Field(description="int32, index in the dataset")
    texts: tuple[bytes, ...] = Field(description="JSON: features as {label, probability, …}")


Batch = TraceCaptured | QueriesAnswered | OutputsPredicted
