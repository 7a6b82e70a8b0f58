"""What a key reaches by reply subjects, tried with each of its rights on a real server.

NATS checks no reply subject, and JetStream answers there with rights of its own.
"""

import json
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.access.accounts import INSIDE
from mlscope.bus.inboxes import ANSWERS
from mlscope.bus.streams import DURABLES, MANAGED
from mlscope.provision import provision
from mlscope.settings import Settings
from tests.cli.cluster.keyholders import KEYS, client_of, served
from tests.mlscope.bus.access.permission_trace import covers

OUTSIDERS = sorted(KEYS.keys() - INSIDE)
"""The keys outside the log's account."""
STORED: Mapping[str, str] = {
    "a fact of an evaluation": "mlscope.v1.evaluation.forged.measured",
    "a fact of an analysis": "mlscope.v1.analysis.forged.completed",
    "a fact of another agent's run": "mlscope.v1.run.forged.r1.completed.other",
    "another agent's spans": "mlscope.v1.trace.forged.r1.captured.other",
    "another agent's departure": "mlscope.v1.agent.other.left",
    "the catalog": "$KV.catalog.forged",
    "another agent's lease": "$KV.leases.agent-other",
    "a description in `artifacts`": "$O.artifacts.M.forged",
    "a file in `payloads`": "$O.payloads.C.forged",
    "another agent's description in `payloads`": "$O.payloads.M.other.forged",
    "another agent's description in `batches`": "$O.batches.M.other.forged",
}
"""Reply subjects that a stream stores, none of which an agent called `a1` may publish on."""
DESTRUCTIVE = (
    "$JS.API.STREAM.PURGE.EVALUATIONS",
    "$JS.API.STREAM.DELETE.EVALUATIONS",
    "$JS.API.CONSUMER.DELETE.EVALUATIONS.scheduler",
)
REACHED, GRANTED, REFUSED = "!", "p", "·"
"""What came of a trick: it arrived; the key may publish there itself; nothing arrived."""
HARM = "orders to JetStream: to delete or purge a stream, to delete a consumer"

_STREAMS = (
    "EVALUATIONS", "FLEET", "CATALOG", "TRACES", "QUERIES", "DEAD",
    "KV_leases", "KV_catalog", "OBJ_artifacts", "OBJ_payloads", "OBJ_batches",
)  # fmt: skip
_HEAD = """
## Reply subjects

NATS checks no reply subject, and JetStream answers with rights of its own. `make rights` publishes
with each key on each of its rights, and names what each row says as the reply subject. `·`: nothing
arrived there. `p`: the key may publish there itself; in the last row, it may remove messages of
some streams. `!`: something arrived. Only `provisioner` has the log's account: it may use reply
subjects so.

"""


async def opened(server: NatsServer, name: str) -> Client:
    """Connect with the key called `name`; refusals of the server are expected."""
    return await client_of(server.folder, server.url, name)


async def settle(client: Client) -> None:
    """Wait until the server has read everything that the `client` has sent."""
    await client.flush()
    await client.flush()


async def stored_subjects(reader: Client) -> frozenset[str]:
    """Return the subjects of which a stream holds messages."""
    subjects: set[str] = set()
    for stream in _STREAMS:
        answer = await asked(reader, f"STREAM.INFO.{stream}", subjects_filter=">")
        subjects.update(answer["state"].get("subjects") or ())
    return frozenset(subjects)


async def asked(reader: Client, request: str, **fields: str) -> dict[str, Any]:
    """Return what JetStream answers to a `request` with these `fields`."""
    body = json.dumps(fields).encode() if fields else b""
    message = await reader.request(f"$JS.API.{request}", body, timeout=30)
    answer: dict[str, Any] = json.loads(message.data)
    return answer


@dataclass(frozen=True)
class StreamState:
    """What an intruder must leave as it was: when a stream was made, its messages, its durables.

    A bucket may lose its first message, as each key has one.
    """

    made: str
    first: int
    durables: int


async def stream_states(reader: Client) -> dict[str, StreamState]:
    """Return the state of every stream that is there."""
    streams: dict[str, StreamState] = {}
    for name in (await asked(reader, "STREAM.NAMES"))["streams"] or ():
        info = await asked(reader, f"STREAM.INFO.{name}")
        state = info["state"]
        first = 0 if name.startswith("KV_") else state["first_seq"]
        streams[name] = StreamState(info["created"], first, state["consumer_count"])
    return streams


async def try_answers(server: NatsServer, name: str) -> dict[str, str]:
    """Have the key called `name` ask for answers onto `STORED`; return what came, by row."""
    await provision(settings_of(server))
    reader, intruder = await opened(server, "provisioner"), await opened(server, name)
    body = json.dumps({"seq": 1, "batch": 10, "forged": name}).encode()
    for right in _rights_of(name):
        await intruder.publish(_literal(right), body)
        for reply in (*STORED.values(), *DESTRUCTIVE):
            await intruder.publish(_literal(right), body, reply=reply)
            # An acknowledged store, or what is stored, answered onto the reply subject.
            await intruder.publish(_literal(right), b"", reply=reply)
    await settle(intruder)
    await settle(reader)
    stored = await stored_subjects(reader)
    await intruder.close()
    await reader.close()
    return {label: _outcome_of(name, subject, stored) for label, subject in STORED.items()}


def _outcome_of(name: str, subject: str, stored: Set[str]) -> str:
    """Return what came of a `subject` that the key called `name` had answered onto."""
    if any(covers(right, subject) for right in KEYS[name].publish):
        return GRANTED
    return REACHED if subject in stored else REFUSED


async def try_orders(server: NatsServer, name: str) -> dict[str, str]:
    """Have the key called `name` ask for answers as orders to JetStream; return what came."""
    await provision(settings_of(server))
    await _fill(server)
    reader, holder = await opened(server, "provisioner"), await opened(server, name)
    before = await stream_states(reader)
    orders = [
        f"$JS.API.STREAM.{verb}.{stream}" for verb in ("DELETE", "PURGE") for stream in before
    ]
    orders += [f"$JS.API.CONSUMER.DELETE.{durable.stream}.{durable.name}" for durable in DURABLES]
    for right in _rights_of(name):
        body = b"" if right.startswith(MANAGED) else b'{"seq": 1, "batch": 10}'
        for order in orders:
            await holder.publish(_literal(right), body, reply=order)
    await settle(holder)
    await settle(reader)
    after = await stream_states(reader)
    await holder.close()
    await reader.close()
    emptied = _may_empty(name)
    harmed = {
        stream
        for stream, state in before.items()
        if (now := after.get(stream)) is None
        or (replace(now, first=state.first) if stream in emptied else now) != state
    }
    return {HARM: REACHED if harmed else GRANTED if emptied else REFUSED}


async def _fill(server: NatsServer) -> None:
    """Have every key store one message wherever it may, so that there is something to lose."""
    for name in OUTSIDERS:
        client = await opened(server, name)
        for right in _rights_of(name):
            if not right.startswith(("$JS.", "$SRV.", f"{MANAGED}.")):
                await client.publish(_literal(right), b"{}")
        await settle(client)
        await client.close()


def _may_empty(name: str) -> set[str]:
    """Return the streams whose messages the key called `name` may remove."""
    prefixes = [f"{MANAGED}.STREAM.{verb}." for verb in ("PURGE", "MSG.DELETE")]
    return {
        right.removeprefix(prefix)
        for right in KEYS[name].publish
        for prefix in prefixes
        if right.startswith(prefix)
    }


def _rights_of(name: str) -> Iterable[str]:
    """Return where the key called `name` may publish, beyond answers."""
    return [right for right in KEYS[name].publish if right != ANSWERS]


def _literal(right: str) -> str:
    """Return one subject that `right` allows."""
    return right.replace("*", "x").replace(">", "x")


def settings_of(server: NatsServer) -> Settings:
    """Return the settings of the `server`'s provisioner."""
    return Settings(nats_url=server.url, nats_seed_file=server.seed_files["provisioner"])


async def tricks(folder: Path) -> dict[str, dict[str, str]]:
    """Try every trick with every key of `OUTSIDERS`; return what came of it, by key and row."""
    with served(folder) as server:
        return {
            name: await try_answers(server, name) | await try_orders(server, name)
            for name in OUTSIDERS
        }


def section(outcomes: Mapping[str, Mapping[str, str]]) -> str:
    """Return the section of the page of rights that says what came of the tricks."""
    columns = [name for name in KEYS if name in outcomes]
    lines = [f"| answered onto | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    lines += [
        f"| {label} | {' | '.join(outcomes[name][label] for name in columns)} |"
        for label in (*STORED, HARM)
    ]
    return f"{_HEAD}{chr(10).join(lines)}\n"
