"""The permissions of every connection: the one table that a NATS server's users are made from.

Every connection has a name, which is also the name of its key and its inbox prefix. A name without
an entry may do nothing. An entry holds exactly the permissions in use: a test plays the story of
every service and fails on a missing permission and on an unused one.

No service may create a consumer, because a consumer can deliver messages to any subject. Services
read with Direct Get, and follow by subscribing to the live subjects as well.

Agents run other people's models and are trusted least. An agent with its own key (`agent-NAME`,
made by `mlscope keys --agent NAME`) can't receive another agent's commands, write another lease or
announce another agent. The subjects of its facts about runs end with its name, and a fact counts
only on its own subject. Agents that share the key `agent` trust each other: each may receive the
commands of all, publish as any of them, and end any lease.

No key prevents that an agent publishes, under its own name, facts about another agent's run; takes
the name of a large payload before its owner does (readers notice this by the checksum in the fact);
fills a stream; or drops all leases at once by a roll-up, which the server insists on allowing where
expired keys leave markers. (The holders renew their leases with the next heartbeat.)

Requesters share one key, and one store for files that are too large for a request (`uploads`). A
requester may fill it for a day, or overwrite another's file, which agents notice by its checksum.
The store refuses files when it is full, and holds nothing else.

Watchers (and requesters) see the live spans of every evaluation (times, names of layers and
kernels) and how far it is, on subjects that only the gateway publishes on. A watcher can't read the
log, requests, answers of models, or what is sent to others, and can't start or end anything.

The provisioner makes and changes the streams, stores and durables in `streams`; it deletes and
purges nothing. A permission names a subject, not a body, so no key that may change a stream can be
prevented from setting limits that empty it, or from giving it the subjects of other streams.

Subjects are NATS permission subjects (`*` is one token, a final `>` one or more tokens).
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
from schemas.dead import LetterBuried
from schemas.encoding.message_index import COMMANDS
from schemas.message import Fact
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunReady, RunRecorded
from schemas.subjects import REQUEST, ROOT, agent_command, subject_of, watch_subject
from schemas.trace import Watch

_INBOX = "_INBOX_"
_AGENT = "agent"
_ANY = "*"
CURATOR = "curator"
"""The connection that adds and removes artifacts."""
WATCHER = "watcher"
"""The connection that may have evaluations relayed and look at them, and nothing else."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Permission:
    """The subjects one connection may publish and subscribe to; neither may be empty.

    NATS reads an empty list as every subject, hence the check.
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

    The server lets a requester name any reply subject, and the answer is sent with the permissions
    of the service that answers: on a subject that is no inbox it could pass for a fact.
    """
    return reply.startswith(_INBOX)


def _inboxes(*names: str) -> tuple[str, ...]:
    return tuple(f"{inbox_prefix(name)}.>" for name in names)


def _requests(*verbs: str) -> tuple[str, ...]:
    return tuple(f"{REQUEST}.{verb}" for verb in verbs)


def _entities(*entities: str) -> tuple[str, ...]:
    """Publish, or subscribe to, all facts of an entity."""
    return tuple(f"{ROOT}.{entity}.>" for entity in entities)


def _fact(fact: type[Fact], **fixed: str) -> str:
    """Return the subject of a type of fact; tokens that are not in `fixed` are `*`."""
    names = {"evaluation", "run", "agent", "service"} & set(fact.model_fields)
    identity: dict[str, Any] = {name: fixed.get(name, _ANY) for name in names}
    return subject_of(fact.model_construct(**identity))


def _keys(*buckets: str) -> tuple[str, ...]:
    """Receive changes of keys."""
    return tuple(f"$KV.{bucket}.>" for bucket in buckets)


def _batches(*streams: str) -> tuple[str, ...]:
    """Read a stream from a sequence on, in batches."""
    return tuple(f"$JS.API.DIRECT.GET.{stream}" for stream in streams)


def _newest(stream: str, subject: str) -> str:
    """Read the newest message on a subject."""
    return f"$JS.API.DIRECT.GET.{stream}.{subject}"


def _consume(durable: str) -> tuple[str, ...]:
    """Pull from a durable that the provisioner made, and acknowledge."""
    stream = durable_named(durable).stream
    return (
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}",
        f"$JS.ACK.{stream}.{durable}.>",
    )


def _progress_of(durable: str) -> str:
    """Read the state of a durable: what it has acknowledged."""
    return f"$JS.API.CONSUMER.INFO.{durable_named(durable).stream}.{durable}"


def _purge(*streams: str) -> tuple[str, ...]:
    return tuple(f"$JS.API.STREAM.PURGE.{stream}" for stream in streams)


def _described(store: str) -> str:
    """Return the subjects of the descriptions of a store's large payloads."""
    return f"$O.{store}.M.*"


def _fetch(*stores: str) -> tuple[str, ...]:
    """Read large payloads."""
    descriptions = (_look_for(store) for store in stores)
    return (*descriptions, *_batches(*(f"OBJ_{store}" for store in stores)))


def _store_facts() -> tuple[str, ...]:
    """Write large facts; a service that also reads some has `_fetch` as well."""
    return (f"$O.{OBJECTS}.C.*", _described(OBJECTS))


def _store_batches(agent: str) -> tuple[str, ...]:
    """Write an agent's large batches, whose subjects hold the subject of the fact."""
    return (f"$O.{BATCHES}.C.*.*.*.*.{agent}.*", _described(BATCHES), _look_for(BATCHES))


def _artifacts(store: str = ARTIFACTS) -> tuple[str, ...]:
    """Read and list artifacts, or uploads."""
    return (_newest(f"OBJ_{store}", f"$O.{store}.M.*"), *_batches(f"OBJ_{store}"))


def _look_for(store: str) -> str:
    """Check whether a large payload exists."""
    return _newest(f"OBJ_{store}", _described(store))


_AGENT_FACTS = (
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
    """Receive the questions of NATS service discovery: to all, to a service, to an instance."""
    return ("$SRV.*", f"$SRV.*.{service}", f"$SRV.*.{service}.*")


def _agent(agent: str, inbox: str, lease: str) -> Permission:
    return Permission(
        publish=(
            *(_fact(fact, agent=agent) for fact in _AGENT_FACTS),
            f"$KV.leases.{lease}",
            _newest("KV_leases", f"$KV.leases.{lease}"),
            _buries(_AGENT),
            *_store_facts(),
            _look_for(OBJECTS),
            *_store_batches(agent),
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
    """Return the inbox name below which an agent receives answers, whichever key it has."""
    return f"{_AGENT}.{agent}"


def permission_of(name: str) -> Permission:
    """Return the permissions of a connection: an entry of the table, or those of one agent.

    Raises KeyError for a name that has neither. `scheduler` is not allowed as the name of an agent,
    because the scheduler also publishes answers of queries.
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
                *_store_facts(),
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
                _progress_of("registry"),
                _buries("scheduler"),
                *_fetch(OBJECTS),
                *_store_facts(),
                *_store_batches("scheduler"),
                *_inboxes("requester", "gateway"),
            ),
            subscribe=(
                *_inboxes("scheduler"),
                *_requests("evaluate", "match", "cancel", "evaluations", "evaluation"),
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
                _progress_of("spans"),
                _progress_of("queries"),
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
                *_requests("trace", "trace_window", "trace_span"),
                *_discovered("analyzer"),
            ),
        ),
        "gateway": Permission(
            publish=(
                *_requests(*(verb for verb in COMMANDS if verb != Watch.verb)),
                *_batches("EVALUATIONS"),
                *_fetch(OBJECTS),
                watch_subject(_ANY, _ANY),
                *_inboxes("requester", WATCHER),
            ),
            subscribe=(
                *_inboxes("gateway"),
                *_requests(Watch.verb),
                *_entities("evaluation", "run", "analysis", "query", "trace"),
                *_discovered("gateway"),
            ),
        ),
        "requester": Permission(
            publish=(
                *_requests(*COMMANDS),
                # Files uploaded here stay for a day; requesters can't remove or read them.
                f"$O.{UPLOADS}.C.*",
                _described(UPLOADS),
                _look_for(UPLOADS),
                "$SRV.>",
            ),
            subscribe=(
                *_inboxes("requester"),
                *_entities("evaluation", "run", "analysis", "query"),
                watch_subject(_ANY, _ANY),
            ),
        ),
        WATCHER: Permission(
            publish=_requests(Watch.verb),
            subscribe=(*_inboxes(WATCHER), watch_subject(_ANY, _ANY)),
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
                # Create and update all streams, stores, buckets and durables.
                *(
                    f"$JS.API.STREAM.{verb}.{name}"
                    for name in (
                        *(stream.name for stream in STREAMS),
                        *(f"KV_{bucket.name}" for bucket in BUCKETS),
                        *(f"OBJ_{store.name}" for store in STORES),
                    )
                    for verb in ("CREATE", "UPDATE")
                ),
                *(
                    f"$JS.API.CONSUMER.DURABLE.CREATE.{durable.stream}.{durable.name}"
                    for durable in DURABLES
                ),
                *_batches("DEAD"),
                "$JS.API.STREAM.INFO.*",
                "$JS.API.STREAM.MSG.GET.*",
            ),
            subscribe=_inboxes("provisioner"),
        ),
    }
)
"""The permissions of each connection, by name."""
