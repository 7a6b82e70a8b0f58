"""A cluster under made-up messages from every key but one (FUZZED): none ends or stops a service.

    python -m tests.faults.fuzzing --messages 1000000 --state build/fuzzed.json

It goes on after the last thousand that an interrupted run noted in its state file.
"""

import argparse
import asyncio
import json
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

from nats.aio.client import Client

from cli.cluster.keys.members import Members
from cli.cluster.keys.secret_files import ensure_key
from mlscope.bus.access.permissions import agent_key, invitation_key
from mlscope.client.errors import CommandRefused, NotAnswering
from mlscope.client.synchronous import Evaluation
from tests.cli.cluster.keyholders import AGENT, INVITED, KEYS, PEOPLE, client_of
from tests.faults.made_messages import made_message
from tests.flow.clusters import Cluster, online, running

FUZZED = tuple(name for name in KEYS if name != "provisioner")
CHUNK = 1000
_AGENT_WITHIN_S = 1200.0
"""A million messages have some 9,000 ends of unknown runs: a thousand delay the others by 30 s."""
_INVITED_S = 86_400.0
_FLUSHES = 12
_FLUSH_S = 10


async def send_made(cluster: Cluster, seed: int, first: int, count: int) -> int:
    """Publish messages `first` and the following `count`, key after key; return how many."""
    sent = 0
    for key in FUZZED:
        client = await _connected(cluster, key)
        for number in range(first, first + -(-count // len(FUZZED))):
            message = made_message(key, KEYS[key].publish, seed, number)
            if message is None:
                continue
            await client.publish(
                message.subject, message.body, reply=message.reply, headers=message.headers
            )
            sent += 1
        await flush(client)
        await client.close()
    return sent


async def flush(client: Client) -> None:
    """Return once the broker has read all that a client sent. Raises TimeoutError.

    The broker ends a connection for some messages: its answer is lost with it, so we ask again on
    the next one.
    """
    for _ in range(_FLUSHES - 1):
        with suppress(TimeoutError):
            await client.flush(_FLUSH_S)
            return
    await client.flush(_FLUSH_S)


def admit_everyone(cluster: Cluster) -> None:
    """Have the broker know an agent and a machine by keys of their own, and people of each role."""
    members = Members(cluster.folder)
    for name in (agent_key(AGENT), invitation_key(INVITED)):
        ensure_key(cluster.folder / "keys", name)
    public = ensure_key(cluster.folder / "keys", agent_key(AGENT)).public
    members.invite(AGENT, public, time.time() + _INVITED_S)
    assert members.admit(AGENT, public)
    invited = ensure_key(cluster.folder / "keys", invitation_key(INVITED)).public
    members.invite(INVITED, invited, time.time() + _INVITED_S)
    for asker in PEOPLE:
        cluster.mlscope("people", "add", asker.name, "--role", asker.role)
    members.notify()


async def _connected(cluster: Cluster, key: str) -> Client:
    # The broker learns of new keys a moment after they are made.
    options = {"max_reconnect_attempts": -1, "allow_reconnect": True, "pending_size": 1 << 27}
    return await client_of(cluster.folder, cluster.nats_url, key, **options)


def fuzz(cluster: Cluster, seed: int, messages: int, state: Path | None = None) -> int:
    """Send `messages` of a `seed`, and check now and then that no process died; return how many.

    What is done is noted in the file `state`, if there is one, and not done again.
    """
    admit_everyone(cluster)
    noted = json.loads(state.read_text("utf-8")) if state and state.exists() else {}
    done = noted if noted.get("seed") == seed else {"sent": 0, "number": 0}
    sent, number = done["sent"], done["number"]
    while sent < messages:
        count = min(CHUNK, messages - sent)
        sent += asyncio.run(send_made(cluster, seed, number, count))
        assert cluster.restarted() == {}, f"seed {seed}, messages from {number} of each key"
        number += -(-count // len(FUZZED))
        if state is not None:
            state.write_text(json.dumps({"seed": seed, "sent": sent, "number": number}), "utf-8")
            sys.stderr.write(f"{sent} sent, no restart\n")
    _wait_for_agent(cluster)
    assert cluster.restarted() == {}
    return sent


def _wait_for_agent(cluster: Cluster) -> None:
    """Wait until an agent's run is recorded: keys that may end leases have ended them.

    The first question may also wait too long behind the last messages. The analysis is not waited
    for: it comes after those that the key of the scheduler made up, which no other key may ask for.
    """
    deadline_s, state = time.monotonic() + _AGENT_WITHIN_S, "not accepted"
    evaluation: Evaluation | None = None
    with cluster.client() as client:
        while state not in ("measured", "analyzed"):
            assert time.monotonic() < deadline_s, f"the last evaluation is {state}"
            with suppress(CommandRefused, NotAnswering):
                evaluation = evaluation or client.run(
                    "identity", scenarios=online(), agents=["first"]
                )
                state = evaluation.status().state
                evaluation = None if state == "failed" else evaluation
            time.sleep(0.5)


def main() -> None:
    """Fuzz a cluster of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=Path, default=Path("build/fuzzed.json"))
    arguments = parser.parse_args()
    arguments.state.parent.mkdir(parents=True, exist_ok=True)
    with running() as cluster:
        try:
            sent = fuzz(cluster, arguments.seed, arguments.messages, arguments.state)
        except BaseException:
            logs = arguments.state.with_suffix(".logs")
            shutil.copytree(cluster.folder / "logs", logs, dirs_exist_ok=True)
            sys.stderr.write(f"the cluster's logs: {logs}\n")
            raise
        sys.stdout.write(f"{sent} messages, no restart\n")


if __name__ == "__main__":
    main()
