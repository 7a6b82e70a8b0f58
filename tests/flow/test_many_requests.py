"""Very many requests at once: bounded, refused politely, nothing accepted lost, nobody down."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flow.asking import EVALUATE, Stranger, stranger
from tests.flow.clusters import Cluster, assert_well

pytestmark = pytest.mark.timeout(300)

CLUSTER = "cluster_under_pressure"
SILENT_S = 30.0
MOST_WITHOUT_ANSWER = {100_000: 3}
"""A service of another account gets a reply subject from nats-server that ends in six random
characters of 62: of 100,000 questions that wait at once, two have the same one in every eleventh
burst (100,000² / 2 / 62⁶), and one of them is never answered. Their askers ask again."""
#: they wait for an agent who never comes, so that an accepted one costs its record only
REQUEST = {"model": "identity", "agents": ["ghost"], "wait_s": 600.0}
MOST_MEMORY_KIB = 400_000


@pytest.fixture(autouse=True)
def _well_afterwards(cluster: Cluster) -> Iterator[None]:
    yield
    assert_well(cluster)


class Burst:
    """Requests sent as fast as the connection takes them, and the answers to them."""

    def __init__(self, asker: Stranger, count: int) -> None:
        self._asker, self._count = asker, count
        self._is_answered = asyncio.Event()
        self.answers: list[dict[str, Any]] = []

    async def send(self) -> None:
        """Send them all, and wait until all are answered or no further answer comes."""
        inbox = self._asker.nc.new_inbox()
        await self._asker.nc.subscribe(
            inbox, cb=self._heard, pending_msgs_limit=-1, pending_bytes_limit=-1
        )
        body = json.dumps(REQUEST).encode()
        for number in range(self._count):
            await self._asker.nc.publish(EVALUATE, body, reply=inbox)
            if number % 1000 == 0:
                await self._asker.nc.flush(timeout=30)
        with contextlib.suppress(TimeoutError):
            while len(self.answers) < self._count:
                self._is_answered.clear()
                await asyncio.wait_for(self._is_answered.wait(), SILENT_S)

    async def _heard(self, message: Any) -> None:
        self.answers.append(json.loads(message.data))
        self._is_answered.set()


@pytest.mark.parametrize(
    "count", [2_000, *(pytest.param(count, marks=pytest.mark.long) for count in (10_000, 100_000))]
)
async def test_every_asker_is_answered_and_what_is_accepted_is_kept(
    cluster: Cluster, count: int
) -> None:
    async with stranger(cluster.nats_url, cluster.key("requester")) as asker:
        burst = Burst(asker, count)
        await burst.send()
        assert count - len(burst.answers) in range(MOST_WITHOUT_ANSWER.get(count, 0) + 1)
        accepted = {each["evaluation"] for each in burst.answers if each["accepted"]}
        refused = Counter(each["error"] for each in burst.answers if not each["accepted"])
        assert refused["busy"]
        # A busy machine's broker may be away from the scheduler for a while: that is said too.
        assert set(refused) <= {"busy", "unavailable"}
        assert 0 < len(accepted) == len(burst.answers) - refused.total()
        assert memory_kib(cluster, "scheduler") < MOST_MEMORY_KIB
        ends = Counter([await cancelled(asker, evaluation) for evaluation in accepted])
    assert ends == {"cancelled": len(accepted)}


def memory_kib(cluster: Cluster, service: str) -> int:
    """Return the most memory a service ever used."""
    lines = Path(f"/proc/{cluster.pid(service)}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


async def cancelled(asker: Stranger, evaluation: str) -> str:
    """Cancel an evaluation that still waits for its agent, and return how it ended."""
    whose = {"evaluation": evaluation}
    before = await asker.json("mlscope.v1.request.evaluation", whose)
    assert before["state"] in ("requested", "postponed"), before
    assert (await asker.json("mlscope.v1.request.cancel", whose))["accepted"] is True
    after: str = (await asker.json("mlscope.v1.request.evaluation", whose))["state"]
    return after
