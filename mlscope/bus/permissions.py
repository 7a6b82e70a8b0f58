"""Who may say and hear what: the one table from which a NATS server's users are written.

Every connection has a name, which is also its key and its inbox prefix. A name that is not in
`PERMISSIONS` may do nothing. No service may create a consumer: its deliveries could be sent to any
subject. Reading is by Direct Get, following by hearing the live subjects beside it.
Subjects are NATS permission subjects (`*` one token, a final `>` one or more).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mlscope.bus.streams import OBJECTS, durable_named
from schemas.subjects import ROOT

_INBOX = "_INBOX_"


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
    return f"{_INBOX}{name}"


def is_inbox(reply: str) -> bool:
    """Tell whether a reply subject may be answered.

    The server lets an asker name any reply subject, and the answer is sent with the rights of who
    answers: on another subject than an inbox it could pass for a fact.
    """
    return reply.startswith(_INBOX)


def _inboxes(*names: str) -> tuple[str, ...]:
    return tuple(f"{inbox_prefix(name)}.>" for name in names)


def _requests(*verbs: str) -> tuple[str, ...]:
    return tuple(f"{ROOT}.request.{verb}" for verb in verbs)


def _facts(*entities: str) -> tuple[str, ...]:
    """To publish: say such facts. To subscribe: hear them as they are said."""
    return tuple(f"{ROOT}.{entity}.>" for entity in entities)


def _keys(*buckets: str) -> tuple[str, ...]:
    """To publish: set keys. To subscribe: hear them set."""
    return tuple(f"$KV.{bucket}.>" for bucket in buckets)


def _read(*streams: str) -> tuple[str, ...]:
    """Get messages of a stream, singly and in batches."""
    apis = [f"$JS.API.DIRECT.GET.{stream}" for stream in streams]
    return tuple(subject for api in apis for subject in (api, f"{api}.>"))


def _consume(durable: str) -> tuple[str, ...]:
    """Pull from a durable consumer that the provisioner made, and acknowledge."""
    stream = durable_named(durable).stream
    return (
        f"$JS.API.CONSUMER.INFO.{stream}.{durable}",
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}",
        f"$JS.ACK.{stream}.{durable}.>",
    )


def _purge(*streams: str) -> tuple[str, ...]:
    return tuple(f"$JS.API.STREAM.PURGE.{stream}" for stream in streams)


_BUCKETS = _read("KV_catalog", "KV_leases")
_PAYLOADS = (*_read(f"OBJ_{OBJECTS}"), *_purge(f"OBJ_{OBJECTS}"), f"$O.{OBJECTS}.>")
_EVERY_SERVICE = (*_facts("dead"), *_PAYLOADS, *_inboxes("requester", "gateway"), "$SRV.>")
"""Dead letters, large payloads, and where the answers to requests and to discovery go."""

PERMISSIONS: Mapping[str, Permission] = MappingProxyType(
    {
        "registry": Permission(
            publish=(
                *_EVERY_SERVICE,
                *_facts("agent", "manifest"),
                *_keys("catalog"),
                *_read("FLEET", "CATALOG"),
                *_BUCKETS,
                *_consume("registry"),
            ),
            subscribe=(
                *_inboxes("registry"),
                *_requests("publish", "withdraw", "catalog", "digest"),
                *_facts("agent", "manifest"),
                *_keys("catalog", "leases"),
                "$SRV.>",
            ),
        ),
        "scheduler": Permission(
            publish=(
                *_EVERY_SERVICE,
                *_facts("evaluation", "query"),
                *_requests("agent.*.*"),
                *_keys("leases"),
                *_read("EVALUATIONS", "FLEET", "CATALOG"),
                *_BUCKETS,
                *_consume("scheduler"),
            ),
            subscribe=(
                *_inboxes("scheduler"),
                *_requests("evaluate", "cancel", "evaluations", "evaluation"),
                *_facts("evaluation", "run", "analysis", "agent", "manifest"),
                *_keys("catalog", "leases"),
                "$SRV.>",
            ),
        ),
        "agent": Permission(
            publish=(
                *_EVERY_SERVICE,
                *_inboxes("scheduler"),
                *_facts("agent", "run", "trace", "output", "query"),
                *_keys("leases"),
                *_read("EVALUATIONS"),
                *_BUCKETS,
            ),
            subscribe=(
                *_inboxes("agent"),
                *_requests("agent.*.*"),
                *_facts("evaluation", "run"),
                *_keys("catalog", "leases"),
                "$SRV.>",
            ),
        ),
        "collector": Permission(
            publish=(
                *_EVERY_SERVICE,
                *_facts("run"),
                *_read("EVALUATIONS", "TRACES", "QUERIES"),
                *_consume("recorder"),
                *_consume("spans"),
                *_consume("queries"),
                *_purge("TRACES", "QUERIES"),
            ),
            subscribe=(*_inboxes("collector"), *_facts("evaluation", "run"), "$SRV.>"),
        ),
        "analyzer": Permission(
            publish=(
                *_EVERY_SERVICE,
                *_facts("analysis"),
                *_read("EVALUATIONS"),
                *_consume("analyzer"),
            ),
            subscribe=(
                *_inboxes("analyzer"),
                *_requests("tables"),
                *_facts("evaluation", "run", "analysis"),
                "$SRV.>",
            ),
        ),
        "gateway": Permission(
            publish=(
                *_EVERY_SERVICE,
                *_requests("*"),
                *_read("EVALUATIONS", "FLEET", "CATALOG"),
                *_BUCKETS,
            ),
            subscribe=(
                *_inboxes("gateway"),
                *_facts("evaluation", "run", "analysis", "query", "trace", "agent", "manifest"),
                *_keys("catalog", "leases"),
                "$SRV.>",
            ),
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
