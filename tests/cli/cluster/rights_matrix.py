"""What each key may do, found by trying every key on every subject of a real server.

python -m tests.cli.cluster.rights_matrix        writes docs/rights.md
"""

import asyncio
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.access.people import person_key
from mlscope.bus.access.permissions import PERMISSIONS
from mlscope.bus.access.rights import fact_subject
from mlscope.bus.streams import (
    BATCHES,
    BUCKETS,
    DURABLES,
    JETSTREAM,
    MANAGED,
    OBJECTS,
    STORES,
    STREAMS,
    SUSPECTS,
    UPLOADS,
    republished,
)
from schemas.dead import LetterBuried
from schemas.encoding.message_index import COMMANDS, FACTS
from schemas.people import Asker
from schemas.subjects import (
    REQUEST,
    ROOT,
    agent_command,
    asked_subject,
    command_subject,
    join_subject,
    retry_subject,
)
from tests.cli.cluster.keyholders import (
    AGENT,
    INVITED,
    KEYS,
    NAMES,
    PEOPLE,
    client_of,
    inbox_of,
    served,
)
from tests.cli.cluster.reply_tricks import section, tricks

OWN, OTHER = AGENT, "a2"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "rights.md"
_VIOLATION = re.compile(r"permissions violation for (publish|subscription) to \"([^\"]+)\"")
_ASKERS = ((JETSTREAM, ""), (MANAGED, " from another account"))
_AGENT_VERBS = ("start", "stop", "close", "query")
_PEOPLE = ", ".join(f"`{person_key(asker.name)}`" for asker in PEOPLE)
_HEAD = """# Rights of each key

Written by `make rights`, which tries every key on every subject of a real server: {tries} tries.
A test does the same and compares. `p`: the key may publish there, `s`: it may subscribe, `p*` or
`s*`: on some of the subjects of that row, `·`: neither. What a key with an account of its own
publishes reaches the log only where the log's account exports it ([security](security.md)).

`agent-{own}` is the key of the agent `{own}` alone, `invitation-{invited}` that of a machine which
is asked to join as `{invited}`. {people}
are the keys of a viewer, a requester and an owner; what they publish within their accounts crosses
as the commands of their role. `s` says where the server lets a key subscribe. In an account of its
own, a key hears only what that account imports: a viewer's and a requester's import no facts and no
live spans, so they hear none.

"""

Outcome = Mapping[tuple[str, str], tuple[bool, bool]]
"""By key and subject: whether publishing and subscribing were allowed."""


@dataclass(frozen=True, slots=True)
class Row:
    """A group of subjects that mean the same."""

    label: str
    subjects: tuple[str, ...]


def rows() -> Iterator[Row]:
    """Yield every subject of the system, and of the server's own, in groups."""
    for verb in ("published", "withdrawn"):
        yield Row(f"fact manifest.{verb}", (f"{ROOT}.manifest.x.{verb}",))
    for name, fact in FACTS.items():
        if fact.entity == "manifest":
            continue
        for agent in (OWN, OTHER):
            subject = fact_subject(fact, evaluation="e1", run="r1", agent=agent, service=agent)
            has_agent = agent in subject.split(".")
            if fact is not LetterBuried and (has_agent or agent == OWN):
                of = f" of {agent}" if has_agent else ""
                yield Row(f"fact {name}{of}", (subject.replace("*", "x"),))
    for service in PERMISSIONS:
        yield Row(f"dead letter of {service}", (fact_subject(LetterBuried, service=service),))
    yield Row("use of resources", (f"{ROOT}.resources.e1.r1.used.{OWN}",))
    yield Row("live spans of an evaluation", (f"{ROOT}.watch.e1.spans", f"{ROOT}.watch.e1.end"))
    yield from _stored_rows()
    yield Row("everything (`>`)", (">", f"{ROOT}.>"))
    for command in COMMANDS.values():
        yield Row(f"request {command.verb}", (command_subject(command),))
    asker = Asker("ada", "owner")
    asked = tuple(asked_subject(asker, verb) for verb in COMMANDS)
    yield Row("commands that say who asks (`asked`)", asked)
    yield Row(f"joining as {INVITED}", (join_subject(INVITED),))
    for agent in (OWN, OTHER):
        orders = tuple(agent_command(agent, verb) for verb in _AGENT_VERBS)
        yield Row(f"commands to {agent}", orders)
        yield Row(f"joining as {agent}", (join_subject(agent),))
        yield Row(f"lease of {agent}", (f"$KV.leases.agent-{agent}",))
    yield Row("a request of no kind", (f"{REQUEST}.x",))
    yield Row("the catalog", ("$KV.catalog.x",))
    for store in STORES:
        yield Row(f"files of `{store.name}`", (f"$O.{store.name}.C.x",))
        yield Row(f"descriptions in `{store.name}`", (f"$O.{store.name}.M.x",))
    yield from _payload_rows()
    others = (f"$O.{UPLOADS}.C.{person_key('x')}.x", f"$O.{UPLOADS}.M.{person_key('x')}.x")
    yield Row("uploads by the name of a key", others)
    yield from _server_rows()
    for key in NAMES:
        yield Row(f"inbox of {key}", (f"{inbox_of(key)}.x",))
    yield Row("discovery", ("$SRV.PING", "$SRV.INFO", "$SRV.STATS.scheduler"))
    yield Row("the server itself (`$SYS`)", ("$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.x.CONNZ"))


def _payload_rows() -> Iterator[Row]:
    """Yield the places of agents' large facts and batches, and looks for anybody's."""
    for agent in (OWN, OTHER):
        chunks = f"$O.{BATCHES}.C.trace.e1.r1.captured.{agent}.x"
        yield Row(f"files of `{OBJECTS}` of {agent}", (f"$O.{OBJECTS}.C.{agent}.x",))
        yield Row(f"files of `{BATCHES}` of {agent}", (chunks,))
    for store in (OBJECTS, BATCHES):
        place, lookup = f"$O.{store}.M", f"$JS.API.DIRECT.GET.OBJ_{store}.$O.{store}.M"
        for agent in (OWN, OTHER):
            yield Row(f"descriptions in `{store}` of {agent}", (f"{place}.{agent}.x",))
            looks = (f"{lookup}.{agent}.x", f"{lookup}.{agent}.*")
            yield Row(f"looking in `{store}` for what is of {agent}", looks)
        yield Row(f"looking in `{store}` for what is of services", (f"{lookup}.x",))
        yield Row(f"looking in `{store}` for anything", (f"{lookup}.*", f"{lookup}.*.*"))


def _stored_rows() -> Iterator[Row]:
    """Yield what the streams send on once it is stored."""
    for entity in ("evaluation", "run", "analysis", "query", "agent", "manifest"):
        yield Row(f"{entity} facts as stored (`live.`)", (republished(f"{ROOT}.{entity}.x.y"),))
    for bucket in BUCKETS:
        yield Row(f"`{bucket.name}` as stored (`live.`)", (republished(f"$KV.{bucket.name}.x"),))


def _server_rows() -> Iterator[Row]:
    """Yield what JetStream is asked, stream by stream and verb by verb."""
    streams = (
        *(stream.name for stream in STREAMS),
        *(f"KV_{bucket.name}" for bucket in BUCKETS),
        *(f"OBJ_{store.name}" for store in STORES),
    )
    whole = ("INFO", "STREAM.NAMES", "STREAM.LIST", "SERVER.REMOVE", "ACCOUNT.PURGE.MLSCOPE")
    yield Row("JetStream as a whole", tuple(f"$JS.API.{verb}" for verb in whole))
    changes = ("CREATE", "UPDATE", "DELETE", "PURGE", "MSG.DELETE", "SNAPSHOT", "RESTORE")
    for verb in (*changes, "INFO", "MSG.GET", "LEADER.STEPDOWN", "PEER.REMOVE"):
        for prefix, asker in _ASKERS:
            subjects = tuple(f"{prefix}.STREAM.{verb}.{name}" for name in streams)
            yield Row(f"stream {verb.lower()}{asker}", subjects)
    for name in streams:
        subject = f"$JS.API.DIRECT.GET.{name}"
        yield Row(f"reading {name}", (subject, f"{subject}.x"))
    for verb in ("CREATE", "DELETE", "NAMES", "LIST", "PAUSE", "LEADER.STEPDOWN"):
        subjects = tuple(f"$JS.API.CONSUMER.{verb}.{name}.x" for name in streams)
        yield Row(f"consumer {verb.lower()}", subjects)
    for verb in ("CREATE", "NAMES", "LIST"):
        subjects = tuple(f"$JS.API.CONSUMER.{verb}.{name}" for name in streams)
        yield Row(f"consumers {verb.lower()}", subjects)
    for durable in DURABLES:
        place = f"{durable.stream}.{durable.name}"
        for verb in ("DURABLE.CREATE", "INFO", "MSG.NEXT", "DELETE"):
            for prefix, asker in _ASKERS:
                subject = f"{prefix}.CONSUMER.{verb}.{place}"
                yield Row(f"`{durable.name}` {verb.lower()}{asker}", (subject,))
        yield Row(f"retries of `{durable.name}`", (retry_subject(durable.name),))
        yield Row(f"suspects of `{durable.name}`", (f"$KV.{SUSPECTS}.{durable.name}.1",))
        yield Row(f"`{durable.name}` acknowledge", (f"$JS.ACK.{place}.1.1.1.1.1",))


async def tried(server: NatsServer, key: str, subjects: Sequence[str]) -> Outcome:
    """Publish and subscribe to each of `subjects` with a `key`; return what the server allowed."""
    refused: set[tuple[str, str]] = set()

    async def note(error: Exception) -> None:
        refused.update(
            (kind.lower(), subject) for kind, subject in _VIOLATION.findall(str(error).lower())
        )

    client = await client_of(server.folder, server.url, key, error_cb=note, pending_size=1 << 26)
    for subject in subjects:
        if ">" not in subject:
            await client.publish(subject, b"")
        await (await client.subscribe(subject)).unsubscribe()
    await client.flush(30)
    await client.flush(30)
    await client.close()
    return {
        (key, subject): (
            # The client reports subjects in small letters.
            ">" not in subject and ("publish", subject.lower()) not in refused,
            ("subscription", subject.lower()) not in refused,
        )
        for subject in subjects
    }


async def matrix(folder: Path) -> Outcome:
    """Return what every key may do with every subject, on a server that keeps no stream."""
    outcome: dict[tuple[str, str], tuple[bool, bool]] = {}
    subjects = [subject for row in rows() for subject in row.subjects]
    with served(folder) as server:
        for key in KEYS:
            outcome |= await tried(server, key, subjects)
    return outcome


def page(outcome: Outcome) -> str:
    """Return the page of an `outcome`: a row for each group of subjects that any key may use."""
    lines = [f"| | {' | '.join(KEYS)} |", f"|---|{'---|' * len(KEYS)}"]
    nobody: list[str] = []
    for row in rows():
        cells = [_cell([outcome[key, subject] for subject in row.subjects]) for key in KEYS]
        if any(cells):
            lines.append(f"| {row.label} | {' | '.join(cell or '·' for cell in cells)} |")
        else:
            nobody.append(row.label)
    head = _HEAD.format(tries=f"{2 * len(outcome):,}", own=OWN, invited=INVITED, people=_PEOPLE)
    ending = f"\nNo key may publish or subscribe to: {'; '.join(nobody)}.\n"
    return f"{head}{chr(10).join(lines)}\n{ending}"


def _cell(allowed: list[tuple[bool, bool]]) -> str:
    published, heard = zip(*allowed, strict=True)
    words = []
    for letter, tries in (("p", published), ("s", heard)):
        if any(tries):
            words.append(letter if all(tries) else f"{letter}*")
    return " ".join(words)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        tried_rights = asyncio.run(matrix(Path(folder) / "rights"))
        tried_tricks = asyncio.run(tricks(Path(folder) / "tricks"))
        PAGE.write_text(f"{page(tried_rights)}{section(tried_tricks)}", "utf-8")
