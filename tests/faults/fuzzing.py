"""A cluster under made-up messages from every key: none ends or stops a service.

    python -m tests.faults.fuzzing --messages 1000000 --state build/fuzzed.json

It goes on after the last thousand that an interrupted run noted in its state file.
"""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

from nats.aio.client import Client

from mlscope.bus.inboxes import inbox_prefix
from mlscope.bus.permissions import PERMISSIONS
from mlscope.client.errors import EvaluationRefused
from tests.faults.made_messages import made_message
from tests.flow.clusters import Cluster, online, running

KEYS = tuple(name for name in PERMISSIONS if name != "provisioner")
CHUNK = 1000
_AGENT_WITHIN_S = 60.0


async def send_made(cluster: Cluster, seed: int, first: int, count: int) -> int:
    """Publish messages `first` and the following `count`, key after key; return how many."""
    sent = 0
    for key in KEYS:
        client = await _connected(cluster, key)
        for number in range(first, first + -(-count // len(KEYS))):
            message = made_message(key, seed, number)
            if message is None:
                continue
            await client.publish(
                message.subject, message.body, reply=message.reply, headers=message.headers
            )
            sent += 1
        await client.flush(60)
        await client.close()
    return sent


async def _connected(cluster: Cluster, key: str) -> Client:
    async def ignored(_: Exception) -> None:
        return None

    client = Client()
    await client.connect(
        cluster.nats_url,
        nkeys_seed=str(cluster.key(key)),
        inbox_prefix=inbox_prefix(key).encode(),
        error_cb=ignored,
        pending_size=1 << 27,
    )
    return client


def fuzz(cluster: Cluster, seed: int, messages: int, state: Path | None = None) -> int:
    """Send `messages` of a `seed`, and check now and then that no process died; return how many.

    What is done is noted in the file `state`, if there is one, and not done again.
    """
    noted = json.loads(state.read_text("utf-8")) if state and state.exists() else {}
    done = noted if noted.get("seed") == seed else {"sent": 0, "number": 0}
    sent, number = done["sent"], done["number"]
    while sent < messages:
        count = min(CHUNK, messages - sent)
        sent += asyncio.run(send_made(cluster, seed, number, count))
        assert cluster.restarted() == {}, f"seed {seed}, messages from {number} of each key"
        number += -(-count // len(KEYS))
        if state is not None:
            state.write_text(json.dumps({"seed": seed, "sent": sent, "number": number}), "utf-8")
            sys.stderr.write(f"{sent} sent, no restart\n")
    _wait_for_agent(cluster)
    assert cluster.restarted() == {}
    return sent


def _wait_for_agent(cluster: Cluster) -> None:
    """Wait until an agent can be had again: keys that may end leases have ended them."""
    deadline_s = time.monotonic() + _AGENT_WITHIN_S
    while True:
        try:
            with cluster.client() as client:
                client.run("identity", scenarios=online(), agents=["first"]).wait(60)
        except EvaluationRefused:
            assert time.monotonic() < deadline_s, "no agent came back"
            time.sleep(0.5)
        else:
            return


def main() -> None:
    """Fuzz a cluster of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=Path, default=Path("build/fuzzed.json"))
    arguments = parser.parse_args()
    arguments.state.parent.mkdir(parents=True, exist_ok=True)
    with running() as cluster:
        sent = fuzz(cluster, arguments.seed, arguments.messages, arguments.state)
        sys.stdout.write(f"{sent} messages, no restart\n")


if __name__ == "__main__":
    main()
