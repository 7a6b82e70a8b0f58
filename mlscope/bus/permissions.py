"""Who may say and hear what: the one table from which a NATS server's users are written.

Every connection has a name, which is also its key and its inbox prefix. A name without an entry
may do nothing. An entry holds the rights in use and no other: a test plays every service's story
and fails on a right that is missing as on one that nothing uses.

No service may create a consumer, for its deliveries could be sent to any subject: reading is by
Direct Get, following by hearing the live subjects beside it.

Agents run other people's models and are trusted least. One with a key of its own (`agent-NAME`,
made by `mlscope keys --agent NAME`) hears no other agent's orders, writes no other lease and
announces nobody else; its name ends the subject of all it says of a run, and a fact is taken only
under its own subject. Agents that share the key `agent` trust each other: each may hear the orders
of all, speak for any, and end any lease.

What no key keeps an agent from: speaking, under its own name, of a run that another one has;
taking the name of a large payload before its owner does, which readers notice by the checksum in
the fact; filling a stream; dropping all leases at once by a roll-up, which the server insists on
where expired keys leave markers. Their holders renew them with the next heartbeat.

Requesters share a key, and a store for what requests are too small for (`uploads`): one may fill it
for a day, or write over another's file, which agents notice by its checksum. It refuses when full,
and nothing else is kept there.

The provisioner makes and changes the streams, stores and durables that there are in `streams`, and
deletes and purges nothing. What a key that may change a stream can't be kept from, since a right
names a subject and not a body: giving that stream limits which empty it, or subjects of others.

Subjects are NATS permission subjects (`*` one token, a final `>` one or more).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mlscope.bus.streams import (
    ARTIFACTS,
    BATCHES,
    BUCKETS,
    DURABLES,
    OBJECTS,
    STORES,
    STREAMS,
    UPLOADS,
    durable_named,
)
from schemas.agent import AgentAnnounced, AgentLeft, AgentLost
from schemas.batch import OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.catalogue import COMMANDS
from schemas.dead import LetterBuried
from schemas.message import Fact
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunReady, RunRecorded
from schemas.subjects import REQUEST, ROOT, agent_command, subject_of

_INBOX = "_INBOX_"
_AGENT = "agent"
_ANY = "*"
_NOT_ON_PAGES = frozenset({"predictions", "spans", "flow"})
"""Commands that the gateway has no page or address for."""
CURATOR = "curator"
"""The connection that puts and removes artifacts."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")


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
    return tuple(f"{REQUEST}.{verb}" for verb in verbs)


def _entities(*entities: str) -> tuple[str, ...]:
    """To publish: say any fact of an entity. To subscribe: hear them as they are said."""
    return tuple(f"{ROOT}.{entity}.>" for entity in entities)


def _fact(fact: type[Fact], **known: str) -> str:
    """Return the subject of a fact of whatever identity but for what is known of it."""
    names = {"evaluation", "run", "agent", "service"} & set(fact.model_fields)
    identity: dict[str, Any] = {name: known.get(name, _ANY) for name in names}
    return subject_of(fact.model_construct(**identity))


def _keys(*buckets: str) -> tuple[str, ...]:
    """Hear keys set."""
    return tuple(f"$KV.{bucket}.>" for bucket in buckets)


def _batches(*streams: str) -> tuple[str, ...]:
    """Read a stream from a sequence on, many messages at a time."""
    return tuple(f"$JS.API.DIRECT.GET.{stream}" for stream in streams)


def _newest(stream: str, subject: str) -> str:
    """Read the newest message on a subject."""
    return f"$JS.API.DIRECT.GET.{stream}.{subject}"


def _consume(durable: str) -> tuple[str, ...]:
    """Pull from a durable consumer that the provisioner made, and acknowledge."""
    stream = durable_named(durable).stream
    return (
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}",
        f"$JS.ACK.{stream}.{durable}.>",
    )


def _asked_of(durable: str) -> str:
    """Ask how far a durable consumer is."""
    return f"$JS.API.CONSUMER.INFO.{durable_named(durable).stream}.{durable}"


def _purge(*streams: str) -> tuple[str, ...]:
    return tuple(f"$JS.API.STREAM.PURGE.{stream}" for stream in streams)


def _make() -> tuple[str, ...]:
    """Make, or bring up to date, what services bind to."""
    streams = (
        *(stream.name for stream in STREAMS),
        *(f"KV_{bucket.name}" for bucket in BUCKETS),
        *(f"OBJ_{store.name}" for store in STORES),
    )
    verbs = ("CREATE", "UPDATE")
    return (
        *(f"$JS.API.STREAM.{verb}.{stream}" for stream in streams for verb in verbs),
        *(f"$JS.API.CONSUMER.DURABLE.CREATE.{each.stream}.{each.name}" for each in DURABLES),
    )


def _described(store: str) -> str:
    """Return where a store describes its large payloads."""
    return f"$O.{store}.M.*"


def _fetch(*stores: str) -> tuple[str, ...]:
    """Read large payloads."""
    seen = (_look_for(store) for store in stores)
    return (*seen, *_batches(*(f"OBJ_{store}" for store in stores)))


def _keep() -> tuple[str, ...]:
    """Write large facts; `_fetch` goes with it where the service reads some, too."""
    return (f"$O.{OBJECTS}.C.*", _described(OBJECTS))


def _keep_batches(agent: str) -> tuple[str, ...]:
    """Write an agent's large batches: below the subject of the fact."""
    return (f"$O.{BATCHES}.C.*.*.*.*.{agent}.*", _described(BATCHES), _look_for(BATCHES))


def _artifacts(store: str = ARTIFACTS) -> tuple[str, ...]:
    """Read and list artifacts, or uploads."""
    return (_newest(f"OBJ_{store}", f"$O.{store}.M.*"), *_batches(f"OBJ_{store}"))


def _upload() -> tuple[str, ...]:
    """Put files where they stay for a day; nothing there can be removed, or read back."""
    return (
        f"$O.{UPLOADS}.C.*",
        f"$O.{UPLOADS}.M.*",
        _newest(f"OBJ_{UPLOADS}", f"$O.{UPLOADS}.M.*"),
    )


def _look_for(store: str) -> str:
    """Look whether a large payload is there already."""
    return _newest(f"OBJ_{store}", _described(store))


_SAID_BY_AGENTS = (
    RunReady,
    RunCompleted,
    RunFailed,
    TraceCaptured,
    QueriesAnswered,
    OutputsPredicted,
    AgentAnnounced,
    AgentLeft,
)


def _buries(service: str) -> str:
    """Write dead letters."""
    return _fact(LetterBuried, service=service)


def _discovered(service: str) -> tuple[str, ...]:
    """Hear the questions of NATS's own discovery: to all, to the service, to an instance."""
    return ("$SRV.*", f"$SRV.*.{service}", f"$SRV.*.{service}.*")


def _agent(agent: str, inbox: str, lease: str) -> Permission:
    return Permission(
        publish=(
            *(_fact(fact, agent=agent) for fact in _SAID_BY_AGENTS),
            f"$KV.leases.{lease}",
            _newest("KV_leases", f"$KV.leases.{lease}"),
            _buries(_AGENT),
            *_keep(),
            _look_for(OBJECTS),
            *_keep_batches(agent),
            *_artifacts(),
            *_artifacts(UPLOADS),
            *_inboxes("scheduler", "requester"),
        ),
        subscribe=(*_inboxes(inbox), agent_command(agent, _ANY), *_discovered(_AGENT)),
    )


def agent_key(agent: str) -> str:
    """Return the name of the key of one agent alone."""
    return f"{_AGENT}-{agent}"


def agent_inbox(agent: str) -> str:
    """Return the connection name below which an agent takes answers, whichever key it has."""
    return f"{_AGENT}.{agent}"


def permission_of(name: str) -> Permission:
    """Return what a connection may do: an entry of the table, or an agent's own rights.

    Raises KeyError for a name that has neither. No agent may be called like who else answers
    queries.
    """
    agent = name.removeprefix(agent_key(""))
    if agent in (name, "scheduler") or not _TOKEN.fullmatch(agent):
        return PERMISSIONS[name]
    return _agent(agent, agent_inbox(agent), f"agent-{agent}")


PERMISSIONS: Mapping[str, Permission] = MappingProxyType(
    {
        "registry": Permission(
            publish=(
                _fact(AgentAnnounced),
                _fact(AgentLost),
                *_entities("manifest"),
                "$KV.catalog.*",
                *_batches("FLEET", "CATALOG", "KV_catalog", "KV_leases"),
                _newest("KV_catalog", "$KV.catalog.*"),
                _newest("KV_leases", "$KV.leases.*"),
                *_consume("registry"),
                _buries("registry"),
                *_fetch(OBJECTS),
                *_keep(),
                *_inboxes("requester", "gateway"),
            ),
            subscribe=(
                *_inboxes("registry"),
                *_requests("publish", "withdraw", "catalog"),
                *_entities("agent", "manifest"),
                *_keys("catalog", "leases"),
                *_discovered("registry"),
            ),
        ),
        "scheduler": Permission(
            publish=(
                *_entities("evaluation"),
                _fact(QueriesAnswered, agent="scheduler"),
                agent_command(_ANY, _ANY),
                "$KV.leases.*",
                *_batches("EVALUATIONS", "FLEET", "KV_catalog", "KV_leases"),
                *_consume("scheduler"),
                _asked_of("registry"),
                _buries("scheduler"),
                *_fetch(OBJECTS),
                *_keep(),
                *_keep_batches("scheduler"),
                *_inboxes("requester", "gateway"),
            ),
            subscribe=(
                *_inboxes("scheduler"),
                *_requests("evaluate", "cancel", "evaluations", "evaluation"),
                *_entities("evaluation", "run", "analysis"),
                *_keys("catalog", "leases"),
                *_discovered("scheduler"),
            ),
        ),
        _AGENT: _agent(_ANY, _AGENT, _ANY),
        "collector": Permission(
            publish=(
                _fact(RunRecorded),
                _fact(RunIncomplete),
                *_batches("EVALUATIONS"),
                *_consume("recorder"),
                *_consume("spans"),
                *_consume("queries"),
                _asked_of("spans"),
                _asked_of("queries"),
                *_batches("TRACES", "QUERIES"),
                *_purge("TRACES", "QUERIES", f"OBJ_{BATCHES}"),
                f"$JS.API.STREAM.INFO.OBJ_{BATCHES}",
                _buries("collector"),
                *_fetch(OBJECTS, BATCHES),
                *_inboxes("requester"),
            ),
            subscribe=(*_inboxes("collector"), *_discovered("collector")),
        ),
        "analyzer": Permission(
            publish=(
                *_entities("analysis"),
                *_batches("EVALUATIONS"),
                *_consume("analyzer"),
                _buries("analyzer"),
                *_fetch(OBJECTS),
                *_inboxes("requester", "gateway"),
            ),
            subscribe=(
                *_inboxes("analyzer"),
                *_requests("tables", "predictions", "compare", "spans", "flow"),
                *_discovered("analyzer"),
            ),
        ),
        "gateway": Permission(
            publish=(
                *_requests(*(verb for verb in COMMANDS if verb not in _NOT_ON_PAGES)),
                *_batches("EVALUATIONS"),
                *_fetch(OBJECTS),
                *_inboxes("requester"),
            ),
            subscribe=(
                *_inboxes("gateway"),
                *_entities("evaluation", "run", "analysis", "query", "trace"),
                *_discovered("gateway"),
            ),
        ),
        "requester": Permission(
            publish=(*_requests(*COMMANDS), *_upload(), "$SRV.>"),
            subscribe=(
                *_inboxes("requester"),
                *_entities("evaluation", "run", "analysis", "query"),
            ),
        ),
        CURATOR: Permission(
            publish=(
                f"$O.{ARTIFACTS}.C.*",
                f"$O.{ARTIFACTS}.M.*",
                *_artifacts(),
                *_purge(f"OBJ_{ARTIFACTS}"),
                f"$JS.API.STREAM.INFO.OBJ_{ARTIFACTS}",
            ),
            subscribe=_inboxes(CURATOR),
        ),
        "provisioner": Permission(
            publish=(
                *_make(),
                *_batches("DEAD"),
                "$JS.API.STREAM.INFO.*",
                "$JS.API.STREAM.MSG.GET.*",
            ),
            subscribe=_inboxes("provisioner"),
        ),
    }
)
"""Each connection's name and what it may do."""
