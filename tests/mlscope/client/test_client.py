"""Both clients against stand-ins on a memory bus: asking, watching, reading, being refused."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.memory import MemoryServer, connect
from mlscope.client import (
    AsyncClient,
    Client,
    CommandRefused,
    EvaluationRefused,
    NoCluster,
    NoSuchTable,
    NotAnswering,
    StillRunning,
)
from mlscope.client.connection import find_settings
from mlscope.client.watching import Pace, watch
from schemas.request import AgentReason
from tests.stories import E, StandIns, a_run, beginning, ending, queries, stand_ins, whole_story


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
async def standing(server: MemoryServer) -> AsyncIterator[StandIns]:
    async with stand_ins(server) as standing:
        yield standing


@pytest.fixture
async def bus(server: MemoryServer) -> AsyncIterator[Bus]:
    async with connect(server, "requester") as bus:
        yield bus


@pytest.fixture
async def client(bus: Bus, standing: StandIns) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(bus=bus) as client:
        yield client


async def test_a_request_becomes_a_handle(client: AsyncClient) -> None:
    evaluation = await client.run("tiny", scenarios=["online"], batch_sizes=[1, 2], key="k")
    status = await evaluation.status()
    assert status.request is not None
    assert status.request.batch_sizes == (1, 2)
    assert evaluation.address.endswith(evaluation.id)


async def test_refusals_carry_their_fields(client: AsyncClient) -> None:
    with pytest.raises(EvaluationRefused) as refused:
        await client.run("too-large")
    assert refused.value.error == "unsatisfiable"
    assert refused.value.agents == (AgentReason(agent="a1", reason="too little memory"),)
    with pytest.raises(EvaluationRefused) as refused:
        await client.run("tiny", batch_sizes=[0])
    assert (refused.value.error, refused.value.field) == ("invalid", "batch_sizes")
    with pytest.raises(CommandRefused):
        await client.status("nosuch")


async def test_watching_tells_every_step_and_ends(client: AsyncClient, standing: StandIns) -> None:
    await standing.tell(*beginning())
    steps = client.watch(E)
    assert (await anext(steps)).status.state == "planned"
    await standing.tell(*a_run("r0"), queries([1000] * 5), *a_run("r1"), *ending())
    seen = [step async for step in steps]
    happened = [step.happened for step in seen if step.happened]
    assert happened.count("run.recorded") == 2
    assert happened[-1] == "evaluation.analyzed"
    assert seen[-1].ended
    assert seen[-1].readings["r0"].answered == 5


async def test_watching_survives_a_server_that_goes_and_comes(
    server: MemoryServer, bus: Bus, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    steps = watch(bus, E, Pace(tick_s=0.02, look_s=0.05, patience_s=20))
    await anext(steps)
    server.stop()
    coming = asyncio.create_task(anext(steps))
    await asyncio.sleep(0.1)
    server.start()
    await standing.tell(*a_run("r0"), *a_run("r1"), *ending())
    last = await coming
    async for step in steps:
        last = step
    assert last.status.state == "analyzed"


async def test_a_wait_is_bounded_and_the_evaluation_goes_on(
    client: AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    evaluation = await client.evaluation(E)
    with pytest.raises(StillRunning):
        await evaluation.wait(timeout_s=0.05)
    await standing.tell(*a_run("r0"), *a_run("r1"), *ending())
    assert (await evaluation.wait()).state == "analyzed"


async def test_a_table_reads_as_rows_and_as_a_frame(
    client: AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    table = await (await client.evaluation(E)).table("latency")
    assert table.rows()[0] == {"run": "r0", "p50": 5e6}
    assert table.polars()["p50"].to_list()[0] == 5e6
    with pytest.raises(NoSuchTable):
        (await client.tables(E))["none"]


async def test_a_table_of_many_answers_is_whole(client: AsyncClient, standing: StandIns) -> None:
    standing.most_rows = 1
    table = (await client.tables(E, "latency"))["latency"]
    assert [row["run"] for row in table.rows()] == ["r0", "r1"]
    assert table.table.caveats == ()


async def test_rows_that_do_not_come_are_said(client: AsyncClient, standing: StandIns) -> None:
    standing.most_rows = 0
    table = (await client.tables(E))["latency"]
    assert (table.rows(), len(table.table.caveats)) == ([], 1)


async def test_nobody_there_is_said_so(bus: Bus) -> None:
    with pytest.raises(NotAnswering, match="mlscope status"):
        await AsyncClient(bus=bus).catalog()


def test_no_cluster_says_how_to_get_one(tmp_path: object) -> None:
    with pytest.raises(NoCluster, match="mlscope up"):
        find_settings({}, data=str(tmp_path))
    found = find_settings({"MLSCOPE_NATS_URL": "nats://h:1"}, seed_file="/s")
    assert (found.nats_url, str(found.nats_seed_file)) == ("nats://h:1", "/s")


def test_the_light_import_knows_the_client() -> None:
    import mlscope

    assert mlscope.Client is Client
    with pytest.raises(AttributeError):
        _ = mlscope.nothing
