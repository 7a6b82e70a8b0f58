"""Traces on a screen: a run's lanes, the spans in a window of time, and one span with its kin.

Times are nanoseconds from the run's origin. Spans come as an Arrow stream, which has one row for
each span, or for each tile: a tile stands for several spans of a lane that are too short to be
drawn apart, and says how many.
"""

from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Field

from schemas.message import Command, Message
from schemas.values.identity import Token
from schemas.values.json_values import JsonObject
from schemas.values.numbers import Count, Integer

SpanColumn = Literal[
    "lane",
    "depth",
    "start",
    "duration",
    "name",
    "id",
    "parent",
    "query",
    "kind",
    "correlation",
    "count",
    "busy",
    "value",
]
SPAN_COLUMNS: tuple[str, ...] = get_args(SpanColumn)
"""The columns of spans in a window, in their order."""

QUERY_KIND = 7
"""The kind of spans that show the load; the other kinds are those of `SpanKind`."""

ANSWERED = "answered"
QUERY_STATUSES = (ANSWERED, "failed", "lost")
"""The names of the spans of queries: what became of each."""


class ShowTrace(Command):
    """Show the lanes of one run, the range of time and what is missing.

    Empty `run` means the run traced deepest; of its attempts the valid one.
    """

    verb = "trace"
    evaluation: Token
    run: str = Field(default="", max_length=64)
    #: false: where a long run must be prepared first, answer at once how far that is
    waits: bool = True


class ShowWindow(Command):
    """Show the spans of one run that touch the window from `from_ns` to `to_ns`.

    Spans shorter than `min_ns` that follow one another in a lane become tiles; where more than
    `limit` rows would remain, `min_ns` is raised until they fit.
    """

    verb = "trace_window"
    evaluation: Token
    run: str = Field(default="", max_length=64)
    from_ns: Integer = Field(default=-(2**63), ge=-(2**63), le=2**63 - 1)
    to_ns: Integer = Field(default=2**63 - 1, ge=-(2**63), le=2**63 - 1)
    #: only these lanes; empty means all
    lanes: tuple[Annotated[Count, Field(ge=0, le=2**31 - 1)], ...] = Field(
        default=(), max_length=4096
    )
    #: shorter spans become tiles; 0: only where `limit` demands it
    min_ns: Count = Field(default=0, ge=0, le=2**63 - 1)
    limit: Count = Field(default=2_000_000, ge=1, le=2_000_000)
    #: only these columns; empty means all
    columns: tuple[SpanColumn, ...] = Field(default=(), max_length=len(SPAN_COLUMNS))
    #: the byte of the stream from which the answer goes on
    offset: Count = Field(default=0, ge=0, le=2**63 - 1)


class ShowSpan(Command):
    """Show one span of a run with its attributes, ancestors, children and spans of its name."""

    verb = "trace_span"
    evaluation: Token
    run: str = Field(default="", max_length=64)
    span: Integer = Field(ge=-(2**63), le=2**63 - 1)


class Watch(Command):
    """Relay an evaluation's live spans for a while; repeat the command to continue.

    The spans are sent on a subject of their own, as JSON; they are not stored there.
    """

    verb = "watch"
    evaluation: Token


class Watching(Message):
    """Answer to `watch`: subscribe to `subject`, and repeat the request within `lasts_s` seconds.

    Its last token is the kind of event: spans, gap, progress, end.
    """

    evaluation: Token
    subject: str
    lasts_s: float


class TraceLane(Message):
    """One row of a timeline: what its spans share, and how many there are.

    `key` is the same in a live and in a stored trace; `lane` is the number that spans refer to.
    """

    lane: int
    key: str
    group: Literal["load", "host", "device", "counter"]
    #: of the load: query, late, queued; of a host: application, model, layer, library, system;
    #: of a device: kernel; of a counter: its unit
    level: str
    title: str
    thread: int | None = None
    device: int | None = None
    stream: int | None = None
    #: rows that are drawn one below the other are 0 to `depth_max`
    depth_max: int = 0
    spans: int = 0


class TraceGap(Message):
    """A stretch of time whose spans are missing; without a `lane`, in every lane."""

    lane: int | None = None
    from_ns: int
    to_ns: int
    #: missing spans, 0 unknown
    count: int = 0
    reason: str = ""


class TraceOverview(Message):
    """Answer to `trace`. `origin_epoch_ns` is the time of day of time 0, 0 unknown.

    Where `prepared_share` is below 1, the run is being prepared: ask again for its lanes.
    """

    evaluation: Token
    run: Token
    attempt: int
    agent: str = ""
    model: str = ""
    framework: str = ""
    #: what the run's model ran on: cpu, cuda
    device: str = ""
    batch_size: int = 1
    #: the names of all runs of the evaluation that have spans
    runs: tuple[str, ...] = ()
    #: by the cluster's clock where the agent's was measured to differ
    origin_epoch_ns: int = 0
    #: by how much the agent's clock was behind the cluster's, as measured, and the most by which
    #: that is wrong; None not measured
    clock_offset_ns: int | None = None
    clock_bound_ns: int | None = None
    range_ns: tuple[int, int] = (0, 0)
    spans: int = 0
    #: spans that are stored but were not read, because the trace is too long
    unread: int = 0
    #: records and batches of spans that were lost while measuring
    dropped: int = 0
    lanes: tuple[TraceLane, ...] = ()
    gaps: tuple[TraceGap, ...] = ()
    caveats: tuple[str, ...] = ()
    prepared_share: float = 1.0


class TraceWindow(Message):
    """Answer to `trace_window`: a part of the Arrow stream, from byte `offset` of `total_bytes`.

    All parts have the same `digest`. In JSON, `part` is base64 for URLs.
    """

    evaluation: Token
    run: Token
    #: spans in the window, and rows that stand for them
    spans: int
    rows: int
    #: spans shorter than this became tiles; 0: every span has its own row
    min_ns: int
    offset: int
    total_bytes: int
    digest: str
    part: bytes

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_bytes="base64")


class TraceSpan(Message):
    """One span of a trace as its details name it."""

    id: int
    name: str
    lane: int
    depth: int = 0
    start_ns: int
    duration_ns: int
    kind: int = 0
    query: int = -1


class SameName(Message):
    """The durations of all spans of one name in one group of lanes and level, in ns."""

    count: int
    least_ns: float
    median_ns: float
    p90_ns: float
    p99_ns: float
    most_ns: float
    total_ns: float
    #: share of those spans that take no longer than this one
    rank: float
    #: the spans of the same name before and after this one, by start
    previous: int | None = None
    next: int | None = None


class SpanDetails(Message):
    """Answer to `trace_span`: ancestors from the nearest on, the first children by start.

    `launched` is the device work that this call started, `launched_by` the call that started it.
    """

    evaluation: Token
    run: Token
    span: TraceSpan
    level: str = ""
    thread: int | None = None
    block: int = -1
    #: the framework's number of the layer that it is or belongs to, -1 for none
    layer: int = -1
    correlation: int = -1
    attributes: JsonObject = Field(default_factory=dict)
    ancestors: tuple[TraceSpan, ...] = ()
    children: tuple[TraceSpan, ...] = ()
    total_children: int = 0
    launched: tuple[TraceSpan, ...] = ()
    launched_by: TraceSpan | None = None
    same_name: SameName | None = None


class ShowSpans(Command):
    """Show spans of one run, ordered by start and id, as many as fit into the answer.

    Empty `run` means the first run, by name, that has spans; of its attempts the valid one.
    """

    verb = "spans"
    evaluation: Token
    run: str = Field(default="", max_length=64)
    #: start and id of the last span in the previous answer
    after_ns: Integer = Field(default=-(2**63), ge=-(2**63), le=2**63 - 1)
    after_span: Integer = Field(default=-(2**63), ge=-(2**63), le=2**63 - 1)
    #: 0 is as many as fit
    limit: Count = Field(default=0, ge=0, le=2**31 - 1)
