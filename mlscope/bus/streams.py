"""Streams, durables, buckets and object stores as data: `mlscope provision` makes them. Pure.

A fact above `MAX_PAYLOAD_BYTES` refers to an object that holds its data. The object is kept as
long as the message that refers to it may be needed. The log is never purged, so the objects of its
facts (store `payloads`) are never deleted, not even one whose fact lost a guarded write: the same
decision, made again, refers to it again. Batches are purged once they are rows; their objects
(store `batches`) are deleted with the messages, and all objects of a run with its last message.
Both stores are bounded and refuse data when full; a full store delays publishers as a full stream
does. Users remove artifacts themselves; uploads (files too large for a request) expire after a day.
"""

from dataclasses import dataclass

from schemas.subjects import ROOT


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: the subjects it stores, and its limits.

    A `max_bytes` of -1 means no limit. A full stream refuses messages (discard new), unless it
    `forgets`: then it drops its oldest ones. Everyone may write dead letters, and these must not
    fill the disk. A stream that `republishes` sends each message on, once it is stored, for the
    connections outside the log's account to hear; every bucket does, too.
    """

    name: str
    subjects: tuple[str, ...]
    max_bytes: int = -1
    duplicate_window_s: float = 120.0
    forgets: bool = False
    republishes: bool = False


@dataclass(frozen=True, slots=True)
class Durable:
    """One shared consumer: all instances of a `service` ('': that of its name) pull from it."""

    name: str
    stream: str
    filters: tuple[str, ...]
    service: str = ""
    ack_wait_s: float = 30.0
    max_deliver: int = 8
    backoff_s: tuple[float, ...] = (0.2, 1.0, 5.0, 15.0)
    max_ack_pending: int = 1000


@dataclass(frozen=True, slots=True)
class Bucket:
    """One key-value bucket; with a `ttl_s` of 0 keys do not expire."""

    name: str
    ttl_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Store:
    """One object store: a bounded stream of chunks, which refuses chunks when it is full.

    Chunks older than `ttl_s` are deleted; 0 keeps them for ever.
    """

    name: str
    max_bytes: int
    ttl_s: float = 0.0


GIB = 1 << 30

STREAMS: tuple[Stream, ...] = (
    Stream(
        "EVALUATIONS",
        (f"{ROOT}.evaluation.>", f"{ROOT}.run.>", f"{ROOT}.analysis.>"),
        republishes=True,
    ),
    Stream("FLEET", (f"{ROOT}.agent.>",), republishes=True),
    Stream("CATALOG", (f"{ROOT}.manifest.>",), republishes=True),
    Stream("TRACES", (f"{ROOT}.trace.>",), max_bytes=4 * GIB),
    Stream("QUERIES", (f"{ROOT}.query.>", f"{ROOT}.output.>"), max_bytes=2 * GIB, republishes=True),
    Stream("PEOPLE", (f"{ROOT}.person.>",), max_bytes=GIB // 16, forgets=True),
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
        service="collector",
        max_deliver=1000,
    ),
    Durable(
        "analyzer",
        "EVALUATIONS",
        (f"{ROOT}.evaluation.*.measured",),
        ack_wait_s=60.0,
        max_deliver=1000,
    ),
    Durable("spans", "TRACES", (f"{ROOT}.trace.>",), service="collector", max_deliver=1000),
    Durable(
        "queries",
        "QUERIES",
        (f"{ROOT}.query.>", f"{ROOT}.output.>"),
        service="collector",
        max_deliver=1000,
    ),
    Durable("registry", "FLEET", (f"{ROOT}.agent.>",)),
)

LEASES = "leases"
"""The bucket of the leases of agents and schedulers."""

SUSPECTS = "suspects"
"""The bucket that says which message of a durable is in hand alone, since it may end a service."""

BUCKETS: tuple[Bucket, ...] = (
    Bucket(LEASES, ttl_s=15.0),
    Bucket("catalog"),
    Bucket(SUSPECTS, ttl_s=86_400.0),
)

OBJECTS = "payloads"
"""The object store for large facts of the log; its objects are never deleted."""

BATCHES = "batches"
"""The object store for large batches; an object is deleted with the message that refers to it."""

ARTIFACTS = "artifacts"
"""The object store for users' files: models, datasets."""

UPLOADS = "uploads"
"""The object store for files that are too large for a request; every requester may add files."""

STORES: tuple[Store, ...] = (
    Store(OBJECTS, 4 * GIB),
    Store(BATCHES, 4 * GIB),
    Store(ARTIFACTS, 8 * GIB),
    Store(UPLOADS, GIB, ttl_s=86_400.0),
)

MAX_PAYLOAD_BYTES = 512 * 1024
"""The size above which the data of a fact are stored as an object."""

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""The largest message that the server accepts; commands are never split."""


def stream_of(subject: str) -> str:
    """Return the name of the stream that stores a subject or filter.

    A filter with the entity `*` means decisions and outcomes: EVALUATIONS.
    Raises KeyError for a subject that no stream stores.
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

    Raises KeyError for a subject that no stream stores.
    """
    (stream,) = (candidate for candidate in STREAMS if candidate.name == stream_of(subject))
    return BATCHES if stream.max_bytes > 0 and not stream.forgets else OBJECTS


JETSTREAM = "$JS.API"
"""The prefix of the requests that JetStream answers in the log's account."""

MANAGED = f"{ROOT}.jetstream"
"""The prefix of those requests about streams and durables that come from other accounts.

There `JETSTREAM` means streams of the account itself, of which it has none.
"""


def managed(request: str) -> str:
    """Return the subject on which another account makes a `request`, `STREAM.INFO.FLEET` say."""
    return f"{MANAGED}.{request}"


REPUBLISHED = "live"
"""The prefix of the subjects on which streams send stored messages on."""


def republished(subject: str) -> str:
    """Return the subject on which the messages of a live `subject` leave the log's account.

    The subject itself where no stream republishes it, as for what is never stored.
    """
    if subject.startswith("$KV."):
        return f"{REPUBLISHED}.{subject}"
    entity = subject.split(".")[2]
    captured = {
        stored.split(".")[2]
        for stream in STREAMS
        if stream.republishes
        for stored in stream.subjects
    }
    return f"{REPUBLISHED}.{subject}" if entity in captured else subject


def without_root(subject: str) -> str:
    """Return a fact's subject, or a filter, without the root that every subject starts with."""
    return subject.removeprefix(f"{ROOT}.")


def live_filters(filter_subject: str) -> tuple[str, ...]:
    """Return the subjects to subscribe to in order to learn of new facts on a filter.

    A filter with the entity `*` becomes the entities of its stream; other streams' batches would
    only cause needless reads.
    """
    tokens = filter_subject.split(".")
    if tokens[:2] != ROOT.split(".") or tokens[2] != "*":
        return (filter_subject,)
    entities = [captured.split(".")[2] for captured in STREAMS[0].subjects]
    return tuple(".".join([*tokens[:2], entity, *tokens[3:]]) for entity in entities)


def durable_named(name: str) -> Durable:
    """Return the durable of `DURABLES` with this name. Raises KeyError."""
    return {durable.name: durable for durable in DURABLES}[name]


def durable_of(service: str, stream: str) -> Durable | None:
    """Return the durable of `stream` that a `service` pulls from; None where it has none."""
    for durable in DURABLES:
        if (durable.service or durable.name, durable.stream) == (service, stream):
            return durable
    return None


def overlap(filter_subject: str, second_filter: str) -> bool:
    """Tell whether a subject can be on both `filter_subject` and `second_filter`."""
    for pair in zip(filter_subject.split("."), second_filter.split("."), strict=False):
        if ">" in pair:
            return True
        if "*" not in pair and pair[0] != pair[1]:
            return False
    return filter_subject.count(".") == second_filter.count(".")


def matches(filter_subject: str, subject: str) -> bool:
    """Tell whether a literal `subject` is on a filter (`*` is one token, a final `>` the rest)."""
    pattern, tokens = filter_subject.split("."), subject.split(".")
    if pattern[-1] == ">":
        pattern = pattern[:-1]
        if len(tokens) <= len(pattern):
            return False
        tokens = tokens[: len(pattern)]
    return len(pattern) == len(tokens) and all(
        expected in ("*", token) for expected, token in zip(pattern, tokens, strict=True)
    )
