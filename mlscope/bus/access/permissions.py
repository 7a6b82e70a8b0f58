"""The permissions of every connection: the one table that a NATS server's users are made from.

Every connection has a name, which is also the name of its key and its inbox prefix. A name without
an entry may do nothing. An entry holds exactly the permissions in use: a test plays the story of
every service and fails on a missing permission and on an unused one.

All but the provisioner are in NATS accounts of their own (`accounts`), so that these permissions
also hold for the reply subjects that they name.

No service may create a consumer, because a consumer can deliver messages to any subject. Services
read with Direct Get, and follow by subscribing to the live subjects as well.

Agents run other people's models and are trusted least. An agent with its own key (`agent-NAME`,
made by `mlscope keys --agent NAME`) can't receive another agent's commands, write another lease or
announce another agent. The subjects of its facts about runs end with its name, and a fact counts
only on its own subject. Agents that share the key `agent` trust each other: each may receive the
commands of all, publish as any of them, and end any lease.

A large payload of an agent is stored below the agent's name, and its description counts only for
chunks of the same name. So an agent with its own key can't replace, delete or look for the payloads
of services and of other agents.

No key can keep an agent from publishing, under its own name, facts about another agent's run, or
from filling a stream.

Requesters who are no people of the cluster share one key. They, people and the gateway share one
store for files that are too large for a request (`uploads`), in which each key has names of its
own. Any of them may fill it for a day. The store refuses files when it is full, and holds nothing
else.

A machine that is invited has a key for one request: to join as one agent with a key of its own. The
operator's key answers it, once per invitation. The operator also reads and drops dead letters,
and has services handle their messages again: it names a stored message of a durable, and the
service itself reads it, so this lets nobody publish a fact.

Watchers (and requesters) see the live spans of every evaluation (times, names of layers and
kernels) and its progress, on subjects that only the gateway publishes on. A watcher can't read the
log, requests, answers of models, or what is sent to others, and can't start or end anything.

The provisioner makes and changes the streams, stores and durables in `streams`, reads them whole
for backups, and restores those that do not exist; it deletes and purges nothing. A permission names
a subject, not a body, so no key that may change a stream can be prevented from setting limits that
empty it, from giving it the subjects of other streams, or from having a snapshot of it sent to any
subject.

Subjects are NATS permission subjects (`*` is one token, a final `>` one or more tokens).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mlscope.bus.access.rights import (
    add_uploads,
    all_facts,
    be_discovered,
    bury_letters,
    changes_of_keys,
    check_health,
    consume,
    fact_subject,
    fetch_payloads,
    handle_again,
    inboxes,
    list_subjects,
    purge,
    read_artifacts,
    read_figures,
    read_newest,
    read_progress,
    read_stream,
    read_uploads,
    requests,
    requests_of_all,
    settle_letters,
    store_batches,
    store_decisions,
    store_facts,
    stored_facts,
)
from mlscope.bus.inboxes import ANSWERS
from mlscope.bus.streams import (
    ARTIFACTS,
    BATCHES,
    BUCKETS,
    DURABLES,
    OBJECTS,
    STORES,
    STREAMS,
)
from schemas.agent import (
    AgentAnnounced,
    AgentDrained,
    AgentInvited,
    AgentJoined,
    AgentLost,
    AgentResumed,
    AgentRevoked,
)
from schemas.batch import QueriesAnswered
from schemas.encoding.message_index import COMMANDS
from schemas.live.clock import CLOCK_SUBJECT
from schemas.people import PersonAdded, PersonRefused, PersonRemoved
from schemas.price import AgentPriced
from schemas.run import RunIncomplete, RunRecorded
from schemas.subjects import (
    AGENT_FACTS,
    RESOURCES,
    ROOT,
    agent_command,
    join_subject,
    watch_subject,
)
from schemas.trace import Watch

_AGENT = "agent"
_INVITATION = "invitation"
_SERVICES = ("registry", "scheduler", "collector", "analyzer", "gateway", _AGENT)
_ANY = "*"
CURATOR = "curator"
"""The connection that adds and removes artifacts."""
OPERATOR = "operator"
"""The connection of who runs the cluster: it admits machines, drains and revokes agents."""
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


def _agent(agent: str, inbox: str, lease: str) -> Permission:
    return Permission(
        publish=(
            *(fact_subject(fact, agent=agent) for fact in AGENT_FACTS),
            f"{ROOT}.{RESOURCES}.{_ANY}.{_ANY}.used.{agent}",
            CLOCK_SUBJECT,
            f"$KV.leases.{lease}",
            read_newest("KV_leases", f"$KV.leases.{lease}"),
            bury_letters(_AGENT),
            *store_facts(agent),
            *store_batches(agent),
            *read_artifacts(),
            *read_uploads(),
            *check_health(_AGENT, inbox if inbox != _AGENT else f"{_AGENT}.{_ANY}"),
            ANSWERS,
        ),
        subscribe=(*inboxes(inbox), agent_command(agent, _ANY), *be_discovered(_AGENT)),
    )


def agent_key(agent: str) -> str:
    """Return the name of the key of one agent alone."""
    return f"{_AGENT}-{agent}"


def invitation_key(agent: str) -> str:
    """Return the name of the key with which a machine asks to join as `agent`."""
    return f"{_INVITATION}-{agent}"


def agent_inbox(agent: str) -> str:
    """Return the inbox name below which an agent receives answers, whichever key it has."""
    return f"{_AGENT}.{agent}"


def permission_of(name: str) -> Permission:
    """Return the permissions of a connection: an entry of the table, or those of one agent.

    The key of an invitation may ask to join as one agent, and nothing else. Raises KeyError for a
    name that has none. `scheduler` is not allowed as the name of an agent, because the scheduler
    also publishes answers of queries.
    """
    kind, _, agent = name.partition("-")
    if agent == "scheduler" or not _TOKEN.fullmatch(agent):
        return PERMISSIONS[name]
    if kind == _AGENT:
        return _agent(agent, agent_inbox(agent), f"agent-{agent}")
    if kind == _INVITATION:
        return Permission(publish=(join_subject(agent),), subscribe=inboxes(name))
    return PERMISSIONS[name]


PERMISSIONS: Mapping[str, Permission] = MappingProxyType(
    {
        "registry": Permission(
            publish=(
                fact_subject(AgentAnnounced),
                fact_subject(AgentLost),
                fact_subject(AgentPriced),
                *all_facts("manifest"),
                "$KV.catalog.*",
                *read_stream("FLEET", "CATALOG", "KV_catalog", "KV_leases"),
                read_newest("KV_catalog", "$KV.catalog.*"),
                read_newest("KV_leases", "$KV.leases.*"),
                *consume("registry"),
                bury_letters("registry"),
                *fetch_payloads(OBJECTS),
                *store_decisions(),
                *check_health("registry"),
                ANSWERS,
            ),
            subscribe=(
                *inboxes("registry"),
                *requests_of_all("publish", "withdraw", "catalog", "price"),
                CLOCK_SUBJECT,
                *stored_facts("agent", "manifest"),
                *changes_of_keys("catalog", "leases"),
                *handle_again("registry"),
                *be_discovered("registry"),
            ),
        ),
        "scheduler": Permission(
            publish=(
                *all_facts("evaluation"),
                fact_subject(QueriesAnswered, agent="scheduler"),
                fact_subject(PersonRefused),
                agent_command(_ANY, _ANY),
                "$KV.leases.*",
                *read_stream("EVALUATIONS", "FLEET", "KV_catalog", "KV_leases"),
                *consume("scheduler"),
                read_progress("registry"),
                bury_letters("scheduler"),
                *fetch_payloads(OBJECTS),
                *store_decisions(),
                *store_batches("scheduler"),
                *check_health("scheduler"),
                ANSWERS,
            ),
            subscribe=(
                *inboxes("scheduler"),
                *requests_of_all("evaluate", "match", "cancel", "evaluations", "evaluation"),
                *stored_facts("evaluation", "run", "analysis"),
                *changes_of_keys("catalog", "leases"),
                *handle_again("scheduler"),
                *be_discovered("scheduler"),
            ),
        ),
        _AGENT: _agent(_ANY, _AGENT, _ANY),
        "collector": Permission(
            publish=(
                fact_subject(RunRecorded),
                fact_subject(RunIncomplete),
                *read_stream("EVALUATIONS"),
                *consume("recorder"),
                *consume("spans"),
                *consume("queries"),
                read_progress("spans"),
                read_progress("queries"),
                read_progress("recorder"),
                *read_stream("TRACES", "QUERIES"),
                *purge("TRACES", "QUERIES", f"OBJ_{BATCHES}"),
                *map(list_subjects, ("TRACES", "QUERIES", f"OBJ_{BATCHES}")),
                bury_letters("collector"),
                *fetch_payloads(OBJECTS, BATCHES),
                *check_health("collector"),
                ANSWERS,
            ),
            subscribe=(
                *inboxes("collector"),
                *handle_again("recorder", "spans", "queries"),
                *be_discovered("collector"),
            ),
        ),
        "analyzer": Permission(
            publish=(
                *all_facts("analysis"),
                *read_stream("EVALUATIONS"),
                *consume("analyzer"),
                bury_letters("analyzer"),
                *fetch_payloads(OBJECTS),
                *check_health("analyzer"),
                ANSWERS,
            ),
            subscribe=(
                *inboxes("analyzer"),
                *requests_of_all("tables", "predictions", "compare", "explore", "spans", "flow"),
                *requests_of_all("trace", "trace_window", "trace_span"),
                *handle_again("analyzer"),
                *be_discovered("analyzer"),
            ),
        ),
        "gateway": Permission(
            publish=(
                *requests_of_all(*(verb for verb in COMMANDS if verb != Watch.verb)),
                *read_stream("EVALUATIONS"),
                *fetch_payloads(OBJECTS),
                *add_uploads(),
                watch_subject(_ANY, _ANY),
                *read_figures(*_SERVICES),
                *(read_progress(durable.name) for durable in DURABLES),
                *check_health("gateway"),
                # It answers its own question for figures.
                *inboxes("gateway"),
                ANSWERS,
            ),
            subscribe=(
                *inboxes("gateway"),
                *requests_of_all(Watch.verb),
                *all_facts("evaluation", "run", "analysis", "query", "trace", RESOURCES),
                *be_discovered("gateway"),
            ),
        ),
        "requester": Permission(
            publish=(
                *requests(*COMMANDS),
                *add_uploads(),
                "$SRV.>",
            ),
            subscribe=(
                *inboxes("requester"),
                *all_facts("evaluation", "run", "analysis", "query"),
                watch_subject(_ANY, _ANY),
            ),
        ),
        WATCHER: Permission(
            publish=requests(Watch.verb),
            subscribe=(*inboxes(WATCHER), watch_subject(_ANY, _ANY)),
        ),
        CURATOR: Permission(
            publish=(
                f"$O.{ARTIFACTS}.C.*",
                f"$O.{ARTIFACTS}.M.*",
                *read_artifacts(),
                *purge(f"OBJ_{ARTIFACTS}"),
                list_subjects(f"OBJ_{ARTIFACTS}"),
            ),
            subscribe=inboxes(CURATOR),
        ),
        OPERATOR: Permission(
            publish=(
                fact_subject(AgentInvited),
                fact_subject(AgentJoined),
                *map(fact_subject, (AgentDrained, AgentResumed, AgentRevoked)),
                fact_subject(PersonAdded),
                fact_subject(PersonRemoved),
                # The lease of an agent that is revoked ends at once.
                "$KV.leases.*",
                *settle_letters(),
                *check_health(OPERATOR),
                ANSWERS,
            ),
            subscribe=(*inboxes(OPERATOR), join_subject(_ANY), *be_discovered(OPERATOR)),
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
                # For people who ask who did what, and what could not be done.
                *read_stream("EVALUATIONS", "FLEET", "CATALOG", "PEOPLE"),
                *fetch_payloads(OBJECTS),
                # Back up streams, and restore those that do not exist.
                "$JS.API.STREAM.NAMES",
                "$JS.API.STREAM.SNAPSHOT.*",
                "$JS.SNAPSHOT.ACK.>",
                "$JS.API.STREAM.RESTORE.*",
                "$JS.SNAPSHOT.RESTORE.>",
                "$JS.API.STREAM.INFO.*",
                "$JS.API.STREAM.MSG.GET.*",
            ),
            subscribe=inboxes("provisioner"),
        ),
    }
)
"""The permissions of each connection, by name."""
