"""A cluster that stops and starts again, services that run several times, agents that go."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from cli.cluster.ports import free_port
from mlscope.client.errors import CommandRefused
from schemas.status import EvaluationStatus
from schemas.values.identity import run_key
from tests.faults.digests import differing
from tests.flow.asking import stranger
from tests.flow.clusters import SERVICES, Cluster, assert_well, online, run, until
from tests.flow.manifests import model
from tests.forking.commands import Service

pytestmark = pytest.mark.timeout(180)
#: this module stops servers: the cluster is its own
CLUSTER: dict[str, str] = {}

EVALUATIONS = 4
SLOW = {"name": "fixed_rate", "parameters": {"queries": 150, "rate_hz": 30}}


@contextmanager
def ended_later(*processes: Service) -> Iterator[None]:
    """Ask processes to end when the block does, and check that they end well."""
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(20) for process in processes]
    assert set(codes) <= {0, -signal.SIGKILL}, codes


def agents_of(cluster: Cluster) -> set[str]:
    """Return the agents that are live."""
    with cluster.client() as client:
        catalog = client.catalog("agent")
    return {each.announcement.agent for each in catalog.agents if each.state == "live"}


def assert_stored_once(cluster: Cluster, status: EvaluationStatus, spans_a_query: int) -> None:
    """Check the rows of every run that was measured; its batches were prepared before."""
    for one in status.runs:
        key = run_key(status.evaluation, one.run, one.attempt)
        for table, column, factor in (("query", "query", 1), ("span", "span", spans_a_query)):
            counted = f'SELECT count(*), count(DISTINCT {column}) FROM "{table}"'
            counted += " WHERE run_key = %s AND query >= 0"
            assert cluster.rows(counted, key) == [(one.queries * factor,) * 2], (table, one)


@pytest.fixture(scope="module", autouse=True)
def abandoned(cluster: Cluster) -> str:
    """Return an evaluation whose only agent was killed in mid-run, before all else."""
    agent = cluster.service("agent", MLSCOPE_AGENT_ID="only")
    with ended_later(agent), cluster.client() as client:
        until(lambda: "only" in agents_of(cluster))
        # It waits: the scheduler may hear of the agent a moment later than the registry says so.
        evaluation = client.run("identity", agents=["only"], scenarios=[SLOW], wait_s=20)
        until(lambda: running_on(evaluation.status()))
        agent.kill()
    return evaluation.id


def test_down_and_up_keep_everything(cluster: Cluster) -> None:
    before = run(cluster, "tiny-cnn", scenarios=online(), trace_level="framework")
    with cluster.client() as client:
        client.publish({**model("identity"), "name": "mine"})
        tables = {name: each.table for name, each in client.tables(before.evaluation).items()}
        under_way = client.run("tiny-cnn", scenarios=[SLOW]).id
        until(lambda: client.evaluation(under_way).status().state == "running")
    cluster.mlscope("down")
    assert cluster.mlscope("status", code=3) is not None
    cluster.mlscope("up", "--detach")
    with cluster.client() as client:
        again = client.evaluation(before.evaluation)
        assert again.status().model_copy(update={"address": before.address}) == before
        assert {name: each.table for name, each in again.tables().items()} == tables
        assert tables
        assert before.evaluation in [each.evaluation for each in client.evaluations()]
        assert [each.name for each in client.catalog("model", "mine").models] == ["mine"]
        resumed = client.evaluation(under_way).wait(60)
    assert (resumed.state, resumed.runs[0].answered) == ("analyzed", 150), resumed
    assert_stored_once(cluster, resumed, 2)
    assert run(cluster, "mine", scenarios=online()).state == "analyzed"
    assert_well(cluster)


async def instances(cluster: Cluster) -> Counter[str]:
    """Return how many instances of each service answer."""
    async with stranger(cluster.nats_url, cluster.key("requester")) as asker:
        inbox = asker.nc.new_inbox()
        heard = await asker.nc.subscribe(inbox)
        await asker.nc.publish("$SRV.PING", b"", reply=inbox)
        await asyncio.sleep(0.5)
        told = [await heard.next_msg() for _ in range(heard.pending_msgs)]
    return Counter(json.loads(each.data)["name"] for each in told)


async def evaluations_asked(cluster: Cluster) -> list[int]:
    """Return how many requests each scheduler was asked."""
    async with stranger(cluster.nats_url, cluster.key("requester")) as asker:
        inbox = asker.nc.new_inbox()
        heard = await asker.nc.subscribe(inbox)
        await asker.nc.publish("$SRV.STATS.scheduler", b"", reply=inbox)
        told = [json.loads((await heard.next_msg(timeout=5)).data) for _ in range(2)]
    return [
        each["num_requests"]
        for one in told
        for each in one["endpoints"]
        if each["name"] == "evaluate"
    ]


def is_shared_by_both(cluster: Cluster) -> bool:
    """Tell whether both schedulers were asked; ask once more, as the broker picks one at random."""
    with cluster.client() as client, suppress(CommandRefused):
        client.run("no-such-model")
    return min(asyncio.run(evaluations_asked(cluster))) > 0


def load(number: int) -> dict[str, Any]:
    """Return one of several loads: paced by the scheduler, by the worker, or not at all."""
    scenarios = (
        {"name": "poisson", "parameters": {"queries": 30, "rate_hz": 200, "seed": number + 1}},
        {"name": "fixed_rate", "parameters": {"queries": 30, "rate_hz": 200}},
        {"name": "online", "parameters": {"queries": 30}},
    )
    return {"scenarios": [scenarios[number % 3]], "pacing": "local" if number % 2 else "auto"}


def test_two_of_each_service_share_the_work_and_double_nothing(cluster: Cluster) -> None:
    others = [each for each in SERVICES if each != "agent"]
    started = [
        cluster.service(each, MLSCOPE_GATEWAY_PORT=str(free_port()) if each == "gateway" else "0")
        for each in others
    ]
    expected = Counter({**dict.fromkeys(others, 2), "agent": 1})
    with ended_later(*started):
        until(lambda: asyncio.run(instances(cluster)) == expected)
        with cluster.client() as client:
            asked = [client.run("tiny-cnn", **load(number)) for number in range(EVALUATIONS)]
            ends = [each.wait(90) for each in asked]
        assert [each.state for each in ends] == ["analyzed"] * EVALUATIONS
        assert {one.attempt for each in ends for one in each.runs} == {1}
        for status in ends:
            assert_stored_once(cluster, status, 2)
        until(lambda: is_shared_by_both(cluster))
        assert asyncio.run(differing(cluster.folder)) == []
    assert_well(cluster)


def test_all_agents_run_when_all_are_asked(cluster: Cluster) -> None:
    with ended_later(cluster.service("agent", MLSCOPE_AGENT_ID="second")):
        until(lambda: agents_of(cluster) == {"first", "second"})
        told = cluster.mlscope("run", "identity", "--all-agents", "--quiet", "-o", "json")
        assert json.loads(told)
        with cluster.client() as client:
            status = client.evaluation(client.evaluations(limit=1)[0].evaluation).status()
        assert (status.state, sorted(status.agents)) == ("analyzed", ["first", "second"])
        assert sorted(one.agent for one in status.runs) == ["first", "second"]
        assert_stored_once(cluster, status, 2)
    until(lambda: agents_of(cluster) == {"first"})
    assert_well(cluster)


def test_another_agent_takes_the_run_of_one_that_is_gone(cluster: Cluster) -> None:
    agents = {name: cluster.service("agent", MLSCOPE_AGENT_ID=name) for name in ("b", "c")}
    with ended_later(*agents.values()), cluster.client() as client:
        until(lambda: agents_of(cluster) >= set(agents))
        evaluation = client.run("identity", agents=list(agents), scenarios=[SLOW], warmup=0)
        gone = until(lambda: running_on(evaluation.status()))
        os.kill(agents[gone].pid, signal.SIGKILL)
        status = evaluation.wait(60)
        (one,) = status.runs
        (other,) = set(agents) - {gone}
        assert (status.state, one.agent, one.attempt) == ("analyzed", other, 2), status
        ends = cluster.rows(
            "SELECT attempt, agent FROM run WHERE evaluation = %s ORDER BY attempt",
            evaluation.id,
        )
        assert ends == [(1, gone), (2, other)]
        assert_stored_once(cluster, status, 2)
    assert_well(cluster)


def running_on(status: EvaluationStatus) -> str:
    """Return the agent that has the only run under way, '' before."""
    return next((one.agent for one in status.runs if one.state == "started"), "")


def test_an_evaluation_whose_only_agent_is_gone_for_good_fails_with_the_cause(
    cluster: Cluster, abandoned: str
) -> None:
    with cluster.client() as client:
        status = client.evaluation(abandoned).wait(90)
    assert status.state == "failed"
    assert "agent only was lost" in status.cause
    assert "no other agent fits" in status.cause
    assert [(one.state, one.attempt) for one in status.runs] == [("interrupted", 1)]
