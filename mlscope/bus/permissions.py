"""Who may say and hear what: the one table from which a NATS server's users are written.

Every connection has a name, which is also its key and its inbox prefix. A name that is not in
`PERMISSIONS` may do nothing.
Subjects are NATS permission subjects (`*` one token, a final `>` one or more).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mlscope.bus.streams import BUCKETS, OBJECTS, durable_named
from schemas.subjects import ROOT


@dataclass(frozen=True, slots=True)
class Permission:
    """The subjects one connection may publish to and subscribe to; neither may be empty.

    NATS reads an empty list as *everything*, hence the check.
    """

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]

    def __post_init__(self) -> None:
        assert self.publish, "an empty publish list would allow every subject"
        assert self.subscribe, "an empty subscribe list would allow every subject"


def inbox_prefix(name: str) -> str:
    """Return the inbox prefix of the connection called `name`, without the final dot."""
    return f"_INBOX_{name}"


def _inboxes(*names: str) -> tuple[str, ...]:
    return tuple(f"{inbox_prefix(name)}.>" for name in names)


def _requests(*verbs: str) -> tuple[str, ...]:
    return tuple(f"{ROOT}.request.{verb}" for verb in verbs)


def _facts(*entities: str) -> tuple[str, ...]:
    return tuple(f"{ROOT}.{entity}.>" for entity in entities)


def _read(*streams: str) -> tuple[str, ...]:
    """Look at a stream, get single messages of it, read all of it through an ephemeral consumer."""
    subjects: list[str] = []
    for stream in streams:
        subjects += [
            f"$JS.API.STREAM.INFO.{stream}",
            f"$JS.API.STREAM.MSG.GET.{stream}",
            f"$JS.API.DIRECT.GET.{stream}",
            f"$JS.API.DIRECT.GET.{stream}.>",
            f"$JS.API.CONSUMER.CREATE.{stream}",
            f"$JS.API.CONSUMER.CREATE.{stream}.>",
            f"$JS.API.CONSUMER.INFO.{stream}.*",
            f"$JS.API.CONSUMER.MSG.NEXT.{stream}.*",
            f"$JS.FC.{stream}.>",
        ]
    return tuple(subjects)


def _consume(durable: str) -> tuple[str, ...]:
    """Pull from a durable consumer that the provisioner made, and acknowledge."""
    stream = durable_named(durable).stream
    return (
        f"$JS.API.CONSUMER.INFO.{stream}.{durable}",
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}",
        f"$JS.ACK.{stream}.{durable}.>",
    )


def _read_buckets() -> tuple[str, ...]:
    return _read(*(f"KV_{bucket.name}" for bucket in BUCKETS))


def _write_bucket(bucket: str) -> tuple[str, ...]:
    return (f"$KV.{bucket}.>",)


def _payloads() -> tuple[str, ...]:
    stream = f"OBJ_{OBJECTS}"
    return (*_read(stream), f"$O.{OBJECTS}.>", f"$JS.API.STREAM.PURGE.{stream}")


def _purge(*streams: str) -> tuple[str, ...]:
    return tuple(f"$JS.API.STREAM.PURGE.{stream}" for stream in streams)


_ASKERS = _inboxes("requester", "gateway")
"""Where the answers to requests and to discovery go."""

_EVERY_SERVICE = (*_facts("dead"), *_payloads(), *_ASKERS, "$JS.API.INFO", "$SRV.>")
_LIVE_FACTS = _facts("evaluation", "run", "analysis", "query", "agent")

PERMISSIONS: Mapping[str, Permission] = MappingProxyType(
    {
        "registry": Permission(
            publish=(
                *_EVERY_SERVICE,
                *_facts("agent", "manifest"),
                *_write_bucket("catalog"),
                *_read("FLEET", "CATALOG"),
                *_read_buckets(),
                *_consume("registry"),
            ),
            subscribe=(
                *_inboxes("registry"),
                *_requests("publish", "withdraw", "catalog", "digest"),
                "$SRV.>",
            ),
        ),
        "scheduler": Permission(
            publish=(
                *_EVERY_SERVICE,
                *_facts("evaluation", "query"),
                *_requests("agent.*.*"),
                *_write_bucket("leases"),
                *_read("EVALUATIONS", "FLEET", "CATALOG"),
                *_read_buckets(),
                *_consume("scheduler"),
            ),
            subscribe=(
                *_inboxes("scheduler"),
                *_requests("evaluate", "cancel", "evaluations", "evaluation"),
                "$SRV.>",
            ),
        ),
        "agent": Permission(
            publish=(
                *_EVERY_SERVICE,
                *_inboxes("scheduler"),
                *_facts("agent", "run", "trace", "output", "query"),
                *_write_bucket("leases"),
                *_read("EVALUATIONS"),
                *_read_buckets(),
            ),
            subscribe=(*_inboxes("agent"), *_requests("agent.*.*"), "$SRV.>"),
        ),
        "collector": Permission(
            publish=(
                *_EVERY_SERVICE,
                *_facts("run"),
                *_read("EVALUATIONS"),
                *_consume("recorder"),
                *_consume("spans"),
                *_consume("queries"),
                "$JS.API.STREAM.INFO.TRACES",
                "$JS.API.STREAM.INFO.QUERIES",
                *_purge("TRACES", "QUERIES"),
            ),
            subscribe=(*_inboxes("collector"), "$SRV.>"),
        ),
        "analyzer": Permission(
            publish=(
                *_EVERY_SERVICE,
                *_facts("analysis"),
                *_read("EVALUATIONS"),
                *_consume("analyzer"),
            ),
            subscribe=(*_inboxes("analyzer"), *_requests("tables"), "$SRV.>"),
        ),
        "gateway": Permission(
            publish=(
                *_EVERY_SERVICE,
                *_requests("*"),
                *_read("EVALUATIONS", "FLEET", "CATALOG"),
                *_read_buckets(),
            ),
            subscribe=(*_inboxes("gateway"), *_LIVE_FACTS, *_facts("trace"), "$SRV.>"),
        ),
        "requester": Permission(
            publish=(*_requests("*"), "$SRV.>"),
            subscribe=(*_inboxes("requester"), *_facts("evaluation", "run", "analysis", "query")),
        ),
        "provisioner": Permission(
            publish=("$JS.API.>", "$KV.>"),
            subscribe=_inboxes("provisioner"),
        ),
    }
)
"""Each connection's name and what it may do."""
