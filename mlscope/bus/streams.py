"""Streams, durables, buckets and object stores as data: `mlscope provision` makes them.

A fact above `MAX_PAYLOAD_BYTES` travels as a reference to an object, which lives exactly as long
as the message that refers to it can still be needed. The log is kept, so the objects of its facts
(store `payloads`) are never deleted: not even one whose fact lost a guarded write, for the same
decision taken anew refers to it again. Batches are purged once they are rows; the objects of
batches (store `batches`) go with the messages purged, and all of a run's with its last message.
Both stores are bounded and refuse when full, which holds a publisher back like a full stream.
What people put into `artifacts` they remove themselves; what a request was too small for lies in
`uploads` for a day.
"""

from dataclasses import dataclass

from schemas.subjects import ROOT


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: what it captures and how long it is kept.

    `max_bytes` -1 keeps everything. A bounded stream refuses when full (discard new), unless it
    `forgets` its oldest: anybody may write dead letters, and they must not fill the disk.
    """

    name: str
    subjects: tuple[str, ...]
    max_bytes: int = -1
    duplicate_window_s: float = 120.0
    forgets: bool = False


@dataclass(frozen=True, slots=True)
class Durable:
    """One shared consumer; every instance of a service pulls from the same."""

    name: str
    stream: str
    filters: tuple[str, ...]
    ack_wait_s: float = 30.0
    max_deliver: int = 8
    backoff_s: tuple[float, ...] = (0.2, 1.0, 5.0, 15.0)
    max_ack_pending: int = 1000


@dataclass(frozen=True, slots=True)
class Bucket:
    """One key-value bucket; `ttl_s` 0 keeps for ever."""

    name: str
    ttl_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Store:
    """One object store: a bounded stream of chunks that refuses when full.

    What is older than `ttl_s` goes by itself; 0 keeps.
    """

    name: str
    max_bytes: int
    ttl_s: float = 0.0


GIB = 1 << 30

STREAMS: tuple[Stream, ...] = (
    Stream("EVALUATIONS", (f"{ROOT}.evaluation.>", f"{ROOT}.run.>", f"{ROOT}.analysis.>")),
    Stream("FLEET", (f"{ROOT}.agent.>",)),
    Stream("CATALOG", (f"{ROOT}.manifest.>",)),
    Stream("TRACES", (f"{ROOT}.trace.>",), max_bytes=4 * GIB),
    Stream("QUERIES", (f"{ROOT}.query.>", f"{ROOT}.output.>"), max_bytes=2 * GIB),
    Stream("DEAD", (f"{ROOT}.dead.>",), max_bytes=GIB // 4, forgets=True),
)

DURABLES: tuple[Durable, ...] = (
    Durable(
        "scheduler", "EVALUATIONS", (f"{ROOT}.evaluation.>", f"{ROOT}.run.>", f"{ROOT}.analysis.>")
    ),
    Durable(
        "recorder",
        "EVALUATIONS",
        (
            f"{ROOT}.run.*.*.completed.*",
            f"{ROOT}.run.*.*.failed.*",
            f"{ROOT}.evaluation.*.*.interrupted",
        ),
        max_deliver=1000,
    ),
    Durable(
        "analyzer",
        "EVALUATIONS",
        (f"{ROOT}.evaluation.*.measured",),
        ack_wait_s=60.0,
        max_deliver=1000,
    ),
    Durable("spans", "TRACES", (f"{ROOT}.trace.>",), max_deliver=1000),
    Durable("queries", "QUERIES", (f"{ROOT}.query.>", f"{ROOT}.output.>"), max_deliver=1000),
    Durable("registry", "FLEET", (f"{ROOT}.agent.>",)),
)

BUCKETS: tuple[Bucket, ...] = (Bucket("leases", ttl_s=15.0), Bucket("catalog"))

OBJECTS = "payloads"
"""The object store of large facts that are kept: nothing in it is ever deleted."""

BATCHES = "batches"
"""The object store of large batches: an object goes with the message that refers to it."""

ARTIFACTS = "artifacts"
"""The object store of files that people put there: models, datasets."""

UPLOADS = "uploads"
"""The object store of what requests are too small for: whoever asks may put files there."""

STORES: tuple[Store, ...] = (
    Store(OBJECTS, 4 * GIB),
    Store(BATCHES, 4 * GIB),
    Store(ARTIFACTS, 8 * GIB),
    Store(UPLOADS, GIB, ttl_s=86_400.0),
)

MAX_PAYLOAD_BYTES = 512 * 1024
"""The size above which a fact becomes an object."""

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""The largest message a server of ours takes; commands are never split."""


def stream_of(subject: str) -> str:
    """Return the name of the stream that captures a subject or filter.

    A filter for every entity means decisions and outcomes: EVALUATIONS.
    Raises KeyError for a subject no stream captures.
    """
    entity = subject.split(".")[2]
    if entity == "*":
        return STREAMS[0].name
    for stream in STREAMS:
        if any(captured.split(".")[2] == entity for captured in stream.subjects):
            return stream.name
    raise KeyError(subject)


def store_of(subject: str) -> str:
    """Return the name of the object store for large facts on a subject or filter.

    Raises KeyError for a subject no stream captures.
    """
    (stream,) = (each for each in STREAMS if each.name == stream_of(subject))
    return BATCHES if stream.max_bytes > 0 and not stream.forgets else OBJECTS


def place_of(subject: str) -> str:
    """Return a fact's subject, or a filter, without the root every subject has."""
    return subject.removeprefix(f"{ROOT}.")


def live_filters(filter_subject: str) -> tuple[str, ...]:
    """Return the live subjects that announce new facts on a filter.

    A filter for every entity means those of its stream: batches of others would only wake.
    """
    tokens = filter_subject.split(".")
    if tokens[:2] != ROOT.split(".") or tokens[2] != "*":
        return (filter_subject,)
    entities = [captured.split(".")[2] for captured in STREAMS[0].subjects]
    return tuple(".".join([*tokens[:2], entity, *tokens[3:]]) for entity in entities)


def durable_named(name: str) -> Durable:
    """Return one of `DURABLES`. Raises KeyError."""
    return {durable.name: durable for durable in DURABLES}[name]
