"""Remote loads over a real nats-server, with the keys the services have."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgpack
import numpy as np
import pytest
from numpy.typing import NDArray

from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus import nats
from mlscope.bus.inboxes import inbox_prefix
from mlscope.bus.records import ReceivedCommand
from mlscope.load import scenario_named
from mlscope.load.arrivals import poisson_due_ns
from mlscope.load.load import Load
from mlscope.settings import Settings
from schemas.manifest import Assets, DatasetManifest, FrameworkNeed, ModelManifest
from schemas.plan import RunPlan, SessionPlan, Subject, WorkOrder
from schemas.request import Blocks
from schemas.subjects import agent_command
from services.scheduler.errors import IssuerFailed
from services.scheduler.remote_load.continuation import Continuation, continuation_of
from services.scheduler.remote_load.issued import LoadRecord, batches_of
from services.scheduler.remote_load.processes import BrokerAddress, issue_load

AGENT = "machine-1"
RATE_HZ = 500.0


def an_order() -> WorkOrder:
    model = ModelManifest(
        name="m",
        version="1.0.0",
        framework=FrameworkNeed(name="null"),
        inputs=(),
        outputs=(),
        model=Assets(),
    )
    run = RunPlan(run="b2", group=0, scenario="fixed_rate", level="model", queries=1)
    return WorkOrder(
        evaluation="e1",
        attempt=1,
        agent=AGENT,
        session=SessionPlan(session="s", agent=AGENT, batch_size=2, runs=(run,)),
        subject=Subject(model=model, dataset=DatasetManifest(name="d"), framework="null"),
        runs=("b2",),
    )


def a_load(queries: int) -> Load:
    due_ns = (np.arange(queries) * 1e9 / RATE_HZ).astype(np.int64)
    samples = np.arange(2 * queries, dtype=np.int32).reshape(queries, 2)
    return Load("fixed_rate", due_ns, samples, 0, "remote")


def where(server: NatsServer) -> BrokerAddress:
    return BrokerAddress(server.url, server.seeds["scheduler"], inbox_prefix("scheduler"))


@asynccontextmanager
async def answering(
    server: NatsServer,
    answer: Callable[[dict[str, object]], Awaitable[bytes | None]],
    authority: str = "",
) -> AsyncIterator[None]:
    """Be the agent, who trusts the `authority` of a server with TLS."""
    settings = Settings.read(
        {
            "MLSCOPE_NATS_URL": server.url,
            "MLSCOPE_NATS_SEED_FILE": str(server.seed_files["agent"]),
            "MLSCOPE_TLS_AUTHORITY_FILE": authority,
        }
    )

    async def taken(asked: ReceivedCommand) -> bytes | None:
        return await answer(msgpack.unpackb(asked.body))

    async with nats.connect(settings, "agent") as bus:
        limits = {"limit_pending": 10_000, "limit_running": 10_000}
        await bus.answer(agent_command(AGENT, "query"), taken, queue=None, **limits)
        yield


async def well(query: dict[str, object]) -> bytes:
    return msgpack.packb({"query": query["query"], "status": 0, "service_ns": 7, "error": ""})  # type: ignore[no-any-return]


async def test_every_query_is_issued_on_its_time_and_answered(nats_server: NatsServer) -> None:
    load = a_load(100)
    async with answering(nats_server, well):
        issued = await issue_load(
            where(nats_server), an_order(), "b2", Continuation.once(load), 5.0
        )
    assert issued.failed == 0
    assert (issued.issued_ns >= issued.due_ns).all(), "never early"
    assert (issued.ended_ns > issued.due_ns).all()
    assert set(issued.service_ns.tolist()) == {7}


async def test_samples_and_names_reach_the_agent(nats_server: NatsServer) -> None:
    heard: list[dict[str, object]] = []

    async def note(query: dict[str, object]) -> bytes:
        heard.append(query)
        return await well(query)

    async with answering(nats_server, note):
        await issue_load(where(nats_server), an_order(), "b2", Continuation.once(a_load(3)), 5.0)
    assert [h["query"] for h in heard] == [0, 1, 2]
    assert heard[2]["samples"] == np.array([4, 5], "<i4").tobytes()
    assert (heard[0]["evaluation"], heard[0]["run"], heard[0]["attempt"]) == ("e1", "b2", 1)


async def test_failed_and_unanswered_queries_are_told_apart(nats_server: NatsServer) -> None:
    async def some(query: dict[str, object]) -> bytes | None:
        if query["query"] == 1:
            return msgpack.packb({"query": 1, "status": 1, "service_ns": 3, "error": "corrupt"})  # type: ignore[no-any-return]
        if query["query"] == 2:
            await asyncio.sleep(60)
        return await well(query)

    async with answering(nats_server, some):
        issued = await issue_load(
            where(nats_server), an_order(), "b2", Continuation.once(a_load(4)), 1.0
        )
    assert issued.status.tolist() == [0, 1, 2, 0]
    assert issued.errors == {1: "corrupt", 2: "no answer"}


async def test_an_absent_agent_loses_every_query(nats_server: NatsServer) -> None:
    issued = await issue_load(
        where(nats_server), an_order(), "b2", Continuation.once(a_load(5)), 0.5
    )
    assert issued.status.tolist() == [2] * 5
    assert (issued.ended_ns == -1).all()


async def test_a_broker_that_dies_fails_the_load(data_folder: object) -> None:
    with NatsServer(Path(str(data_folder))) as server:
        issuing = asyncio.ensure_future(
            issue_load(where(server), an_order(), "b2", Continuation.once(a_load(2000)), 1.0)
        )
        await asyncio.sleep(1.5)
        server.kill()
        with pytest.raises(IssuerFailed):
            await issuing


async def test_queries_are_heard_once_while_the_load_goes_on(nats_server: NatsServer) -> None:
    heard: list[list[int]] = []

    async def hear(load: LoadRecord, queries: NDArray[np.int32]) -> None:
        assert (load.ended_ns[queries] >= load.issued_ns[queries]).all()
        heard.append(queries.tolist())

    async with answering(nats_server, well):
        order, load = an_order(), a_load(400)
        await issue_load(
            where(nats_server), order, "b2", Continuation.once(load), 5.0, on_final=hear
        )
    assert len(heard) > 1
    assert sorted(query for queries in heard for query in queries) == list(range(400))


def test_batches_hold_every_query_once() -> None:
    queries = 12_000
    zeros = np.zeros(queries, np.int64)
    load = LoadRecord(0, zeros, zeros, zeros, zeros, np.zeros(queries, np.int8), {5001: "x"})
    batches = list(batches_of(an_order(), "b2", load, np.arange(queries, dtype=np.int32)))
    assert [batch.sequence for batch in batches] == [0, 1, 2]
    numbers = np.concatenate([np.frombuffer(batch.query, "<i4") for batch in batches])
    assert numbers.tolist() == list(range(queries))
    assert (batches[1].error_rows, batches[1].error_texts) == ((1,), ("x",))


def served_within(service_ns: int) -> bytes:
    return msgpack.packb({"status": 0, "service_ns": service_ns})  # type: ignore[no-any-return]


async def issued_to(
    server: NatsServer, answer: Callable[[dict[str, object]], Awaitable[bytes]], most: int
) -> tuple[LoadRecord, Continuation]:
    """Issue a Poisson load at 1000/s in blocks of 300, as far as its rule lets it go on."""
    rule = Blocks(least=1, most=most, interval=0.1, budget_s=60)
    subject = an_order().subject.model_copy(update={"blocks": rule})
    order = an_order().model_copy(update={"subject": subject})

    def longer(queries: int) -> Load:
        return scenario_named("poisson")({"rate_hz": 1000, "queries": queries}, 2, 12)

    continuation = continuation_of(order, order.session.runs[0], longer(300), longer)
    async with answering(server, answer):
        issued = await issue_load(where(server), order, "b2", continuation, 5.0)
    assert issued.due_ns.tolist() == poisson_due_ns(1000, issued.queries, 1).tolist()
    assert (issued.issued_ns >= issued.due_ns).all()
    assert issued.failed == 0
    return issued, continuation


async def test_a_steady_agent_s_load_ends_once_it_is_known(nats_server: NatsServer) -> None:
    async def steady(_: dict[str, object]) -> bytes:
        return served_within(7_000)

    issued, continuation = await issued_to(nats_server, steady, 40)
    assert 600 <= issued.queries < 12_000
    assert continuation.ending(issued) == ("interval", "")


async def noisy(query: dict[str, object]) -> bytes:
    block = int(str(query["query"])) // 300
    return served_within(9_000 if block % 2 else 5_000)


async def test_a_noisy_agent_s_load_goes_on_to_its_end_and_says_so(nats_server: NatsServer) -> None:
    issued, continuation = await issued_to(nats_server, noisy, 6)
    reason, caveat = continuation.ending(issued)
    assert (issued.queries, reason) == (1800, "most")
    assert caveat.startswith("ended at 1800 queries, the most allowed: the interval of the median")


async def test_an_agent_that_does_not_keep_up_gets_no_further_queries(
    nats_server: NatsServer,
) -> None:
    async def slow(_: dict[str, object]) -> bytes:
        return served_within(10**12)

    issued, continuation = await issued_to(nats_server, slow, 40)
    # On a busy machine the first look may come while no query waits.
    assert 300 <= issued.queries < 3_000
    assert continuation.ending(issued)[0] == "overload"


async def test_a_broker_that_dies_fails_a_load_that_goes_on(data_folder: object) -> None:
    goes_on = asyncio.Event()

    async def watched(query: dict[str, object]) -> bytes:
        if query["query"] == 450:
            goes_on.set()
        return await noisy(query)

    with NatsServer(Path(str(data_folder))) as server:
        issuing = asyncio.ensure_future(issued_to(server, watched, 40))
        await asyncio.wait_for(goes_on.wait(), 30)
        server.kill()
        with pytest.raises(IssuerFailed):
            await issuing
