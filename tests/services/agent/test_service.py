"""The agent over a bus: announcement, lease, orders, remote queries, leaving."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgpack
import numpy as np
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import NotPermitted
from mlscope.settings import InvalidSetting
from mlscope.testing.memory_bus import MemoryServer, connect
from mlscope.testing.memory_bus.bus import MemoryBus
from mlscope.tracing.batches import columns_of
from schemas.agent import AgentAnnounced, AgentLeft, Lease
from schemas.batch import QueriesAnswered, TraceCaptured
from schemas.encoding.codec import decode_body, encode_body
from schemas.level import Level
from schemas.message import Fact, Message
from schemas.plan import WorkAnswer, WorkOrder
from schemas.run import RunCompleted, RunFailed, RunReady
from schemas.subjects import agent_command, facts_of
from services.agent.errors import NameTaken
from services.agent.fetching.fetching import FetchedAssets
from services.agent.host.roofs.devices import MeasuredDevice
from services.agent.service import serve
from services.agent.worker.sandbox.sandbox import missing_parts
from tests.mlscope.assets import web_server
from tests.services.agent.builders import (
    MANIFESTS,
    SLEEPY,
    a_run,
    a_sleepy_subject,
    a_subject,
    an_order,
)

pytestmark = pytest.mark.usefixtures("forked_workers")
F = TypeVar("F", bound=Fact)


@dataclass(frozen=True)
class Small:
    """Settings of a small agent."""

    data_folder: Path
    manifests_folder: Path = MANIFESTS
    tls_authority_file: Path | None = None
    broker_uid: int | None = None
    agent_id: str = "a1"
    may_number_agent: bool = False
    agent_labels: dict[str, str] = field(default_factory=lambda: {"rack": "7"})
    agent_image: str = "mlscope:1"
    containers: str = ""
    agent_predictors: tuple[str, ...] = ("onnxruntime",)
    allow_inline_python: bool = False
    inline_timeout_s: float = 10.0
    inline_cpu_s: int = 10
    inline_memory_bytes: int = 1 << 30
    inline_output_bytes: int = 1 << 20
    prepare_processes: int = 1
    prepare_timeout_s: float = 60.0
    sandbox: str = "auto"
    worker_user: str = "auto"
    opens_any_model: bool = True
    sandbox_devices: tuple[str, ...] = ()
    secret_paths: tuple[Path, ...] = ()
    builders: tuple[str, ...] = ()
    remote_hosts: tuple[str, ...] = ()
    ring_bytes: int = 1 << 20
    spool_max_bytes: int = 1 << 20
    live_interval_s: float = 1.0
    worker_variables: tuple[str, ...] = ()
    worker_memory_bytes: int = 0
    disk_reserve_bytes: int = 0
    worker_processes: int = 0
    ahead_bytes: int | None = None
    heartbeat_s: float = 0.2
    run_silence_s: float = 30.0
    cache_max_bytes: int = 1 << 20
    fetch_hosts: tuple[str, ...] = ("public", "127.0.0.1")
    fetch_timeout_s: float = 3600.0
    hub_url: str = ""
    dataset_folders: tuple[str, ...] = ()
    nats_url: str = ""
    max_pending_requests: int = 1

    def nats_seed(self) -> str | None:
        """Return that there is none."""
        return None

    @property
    def assets_folder(self) -> Path:
        """Return where the cache is."""
        return self.data_folder / "cache"

    def hub_token(self) -> str | None:
        """Return that there is none."""
        return None


class Scheduler:
    """The other side: sends commands, waits for facts."""

    def __init__(self, bus: Bus, server: MemoryServer) -> None:
        self.bus = bus
        self._server = server

    async def command(self, verb: str, body: Message | dict[str, Any]) -> WorkAnswer:
        """Send a command and return its answer."""
        packed = encode_body(body) if isinstance(body, Message) else msgpack.packb(body)
        answer = await self.bus.ask(agent_command("a1", verb), packed)
        return decode_body(WorkAnswer, answer)

    async def facts(self, kind: type[F], count: int = 1) -> list[F]:
        """Wait for so many facts of a kind."""
        async with asyncio.timeout(60):
            while True:
                recorded = await self.bus.read(facts_of(kind))
                found = [each.fact for each in recorded if isinstance(each.fact, kind)]
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.02)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(60):
            while not is_so():  # noqa: ASYNC110 (a thread changes it)
                await asyncio.sleep(0.01)

    async def lease(self) -> Lease | None:
        """Return the agent's lease."""
        entry = await self.bus.get("leases", "agent-a1")
        return None if entry is None or not entry.value else decode_body(Lease, entry.value)

    async def held_lease(self) -> Lease:
        """Return the agent's lease, which there must be."""
        lease = await self.lease()
        assert lease is not None
        return lease

    async def busy_with(self, count: int) -> set[str]:
        """Wait until the lease names so many runs; return them."""
        async with asyncio.timeout(60):
            while (lease := await self.lease()) is None or len(lease.busy) != count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return set(lease.busy)

    async def query(
        self, order: WorkOrder, query: int, *samples: int, timeout_s: float = 5.0, **more: Any
    ) -> dict[str, Any]:
        """Send a remote query and return its answer."""
        words = {
            **named(order),
            **more,
            "block": 0,
            "query": query,
            "samples": np.array(samples, "<i4").tobytes(),
        }
        subject = agent_command("a1", "query")
        body = await self.bus.ask(subject, msgpack.packb(words), timeout_s=timeout_s)
        answer: dict[str, Any] = msgpack.unpackb(body)
        return answer


def named(order: WorkOrder, run: str = "r0") -> dict[str, Any]:
    """Return what names one attempt."""
    return {"evaluation": order.evaluation, "run": run, "attempt": order.attempt}


@pytest.fixture(autouse=True)
def _with_sleepy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SLEEPY))


@contextlib.asynccontextmanager
async def serving(server: MemoryServer, folder: Path, **more: Any) -> AsyncIterator[Scheduler]:
    stop = asyncio.Event()
    async with connect(server, "agent") as bus, connect(server, "scheduler") as other:
        task = asyncio.create_task(serve(bus, Small(folder, **more), stop))
        scheduler = Scheduler(other, server)
        await scheduler.facts(AgentAnnounced)
        yield scheduler
        stop.set()
        await task


@pytest.fixture
async def scheduler(tmp_path: Path) -> AsyncIterator[Scheduler]:
    """Yield a scheduler with a live agent."""
    async with serving(MemoryServer(), tmp_path) as scheduler:
        yield scheduler


async def test_an_agent_says_what_it_is_and_holds_a_lease(scheduler: Scheduler) -> None:
    (fact,) = await scheduler.facts(AgentAnnounced)
    said = fact.announcement
    assert (said.agent, said.image, said.labels) == ("a1", "mlscope:1", {"rack": "7"})
    assert [runtime.framework for runtime in said.runtimes] == ["onnxruntime"]
    assert (said.sandbox, said.sandbox_missing) == ("auto", missing_parts())
    lease = await scheduler.held_lease()
    assert (lease.holder, lease.incarnation) == ("a1", said.incarnation)


async def test_an_agent_that_can_t_have_its_required_sandbox_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.agent.worker.seccomp.installing.MACHINES", {})
    async with connect(MemoryServer(), "agent") as bus:
        with pytest.raises(InvalidSetting, match="MLSCOPE_SANDBOX=required"):
            await serve(bus, Small(tmp_path, sandbox="required"), asyncio.Event())


async def test_an_agent_of_a_catalog_opens_no_model_that_is_not_its_own(tmp_path: Path) -> None:
    """Whoever sends the order: what the scheduler matched may have been published since."""
    async with serving(MemoryServer(), tmp_path, opens_any_model=False) as scheduler:
        (announced,) = await scheduler.facts(AgentAnnounced)
        assert announced.announcement.models is not None
        assert len(announced.announcement.models) > 100
        order = an_order()
        model = order.subject.model.model_copy(update={"description": "another's"})
        subject = order.subject.model_copy(update={"model": model})
        await scheduler.command("start", order.model_copy(update={"subject": subject}))
        (failed,) = await scheduler.facts(RunFailed)
    assert "MLSCOPE_MODELS=any" in failed.message


async def test_an_order_is_done_and_its_batches_come_before_its_end(scheduler: Scheduler) -> None:
    assert (await scheduler.command("start", an_order(runs=(a_run(queries=600),)))).accepted
    (outcome,) = await scheduler.facts(RunCompleted)
    traces = await scheduler.bus.read(facts_of(TraceCaptured))
    queries = await scheduler.bus.read(facts_of(QueriesAnswered))
    assert len(traces) == outcome.tally.trace_batches
    assert len(queries) == outcome.tally.query_batches
    assert outcome.tally.queries == 600


async def is_busy(_: MeasuredDevice) -> bool:
    """Return that a device is not quiet."""
    return False


async def test_the_roof_is_measured_once_a_start_of_an_agent(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A disturbed measurement is repeated as soon as the machine looks quiet: it must not here.
    monkeypatch.setattr("services.agent.host.roofs.keeping.device_is_quiet", is_busy)
    for session in ("s0", "s1"):
        run = a_run(f"of-{session}", level="framework")
        assert (await scheduler.command("start", an_order(runs=(run,), session=session))).accepted
    outcomes = await scheduler.facts(RunCompleted, 2)
    first, second = (outcome.conditions.peak_flops for outcome in outcomes)
    assert first is not None
    assert (first.measured or 0.0) > 1e6
    assert first == second


async def test_the_same_start_again_does_nothing_again(scheduler: Scheduler) -> None:
    order = an_order()
    answers = [await scheduler.command("start", order) for _ in range(3)]
    assert all(answer.accepted for answer in answers)
    await scheduler.facts(RunCompleted)
    assert (await scheduler.command("start", order)).accepted
    await asyncio.sleep(0.3)
    assert len(await scheduler.facts(RunCompleted)) == 1


async def test_the_lease_names_what_keeps_it_busy(scheduler: Scheduler) -> None:
    order = an_order(a_sleepy_subject(predict_ms=30), (a_run(queries=50),))
    await scheduler.command("start", order)
    await scheduler.facts(QueriesAnswered)
    lease = await scheduler.held_lease()
    assert lease.busy == ("e1/r0/1",)


async def test_the_lease_tells_how_long_files_took_while_the_run_lasts(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_there = asyncio.Event()

    async def slow(*_: object, **__: object) -> FetchedAssets:
        await is_there.wait()
        return FetchedAssets()

    monkeypatch.setattr("services.agent.service.fetch_for_subject", slow)
    await scheduler.command("start", an_order())
    async with asyncio.timeout(60):
        told: list[float] = []
        while len(set(told)) < 3:
            lease = await scheduler.lease()
            told += lease.brought_s.values() if lease else ()
            await asyncio.sleep(0.02)
    assert told == sorted(told)
    is_there.set()
    await scheduler.facts(RunCompleted)
    await scheduler.busy_with(0)
    ended = await scheduler.lease()
    assert ended is not None
    assert ended.brought_s == {}


async def test_a_run_stopped_while_its_files_are_fetched_ends_soon(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("services.agent.service.fetch_for_subject", endless)
    monkeypatch.setattr("services.agent.host.process._CLOSE_S", 0.1)  # its worker only starts
    order = an_order()
    await scheduler.command("start", order)
    await scheduler.busy_with(1)
    await scheduler.command("stop", {**named(order), "reason": "cancelled"})
    async with asyncio.timeout(25):
        (failure,) = await scheduler.facts(RunFailed)
    assert (failure.error, failure.message) == ("stopped", "cancelled")


async def test_a_worker_lost_is_said_and_the_agent_goes_on(scheduler: Scheduler) -> None:
    await scheduler.command("start", an_order(a_sleepy_subject(dies_at=2)))
    (failure,) = await scheduler.facts(RunFailed)
    assert failure.error == "worker_died"
    second = an_order(a_sleepy_subject(), attempt=2)
    assert (await scheduler.command("start", second)).accepted
    (outcome,) = await scheduler.facts(RunCompleted)
    assert outcome.attempt == 2


@pytest.mark.parametrize("how", ["lost_from", pytest.param("raises_at", marks=pytest.mark.long)])
async def test_a_gpu_lost_in_mid_run_has_its_worker_replaced(
    scheduler: Scheduler, how: str
) -> None:
    # Reported by the framework for every call from then on, or raised as what it is.
    await scheduler.command("start", an_order(a_sleepy_subject(**{how: 2})))
    (failure,) = await scheduler.facts(RunFailed)
    told = {"lost_from": "illegal memory access", "raises_at": "a bug"}[how]
    assert (failure.error, told in failure.message) == ("worker_died", True)
    second = an_order(a_sleepy_subject(), (a_run(), a_run("r1")), attempt=2)
    assert (await scheduler.command("start", second)).accepted
    outcomes = await scheduler.facts(RunCompleted, 2)
    assert [outcome.tally.failed_queries for outcome in outcomes] == [0, 0]


async def test_two_sessions_wait_for_each_other(scheduler: Scheduler) -> None:
    for number in range(3):
        order = an_order(runs=(a_run(f"r{number}"),), session=f"s{number}")
        assert (await scheduler.command("start", order)).accepted
    outcomes = await scheduler.facts(RunCompleted, 3)
    assert [outcome.run for outcome in outcomes] == ["r0", "r1", "r2"]


async def test_what_a_model_starts_after_its_order_is_bounded_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changes: dict[str, Any] = {"agent_predictors": ("sleepy",), "worker_processes": 200}
    changes["sandbox"] = "off"  # it sees the signal to begin
    async with serving(MemoryServer(), tmp_path, **changes) as scheduler:
        subject = a_sleepy_subject(starts=300, starts_with=str(tmp_path / "signal"))
        await scheduler.command("start", an_order(subject))
        await scheduler.facts(RunCompleted)
        (tmp_path / "signal").touch()
        await scheduler.until(lambda: "a worker without an order was killed" in caplog.messages)
    cause = next(each.__dict__["cause"] for each in caplog.records if "cause" in each.__dict__)
    assert "it may have 200" in cause


async def test_a_session_is_closed_on_command(scheduler: Scheduler) -> None:
    await scheduler.command("start", an_order())
    await scheduler.facts(RunCompleted)
    session = {"evaluation": "e1", "session": "s0"}
    assert (await scheduler.command("close", session)).accepted
    async with asyncio.timeout(60):
        while (await scheduler.command("close", session)).message != "not open":
            pass


async def test_why_no_worker_could_be_started_is_said(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("services.agent.host.sessions.WorkerProcess.start", full)
    await scheduler.command("start", an_order())
    (failure,) = await scheduler.facts(RunFailed)
    assert (failure.error, "No space left on device" in failure.message) == ("worker_died", True)
    session = {"evaluation": "e1", "session": an_order().session.session}
    await scheduler.busy_with(0)
    assert (await scheduler.command("close", session)).message == "not open"


async def test_an_end_that_can_t_be_said_ends_no_agent(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = MemoryBus.publish

    async def refused(bus: MemoryBus, fact: Fact, **said: Any) -> int:
        if isinstance(fact, RunCompleted | RunFailed) and fact.run == "r0":
            raise NotPermitted("mlscope.v1.run")
        return await publish(bus, fact, **said)

    monkeypatch.setattr(MemoryBus, "publish", refused)
    for run in ("r0", "r1"):
        await scheduler.command("start", an_order(runs=(a_run(run),), session=f"s-{run}"))
    (outcome,) = await scheduler.facts(RunCompleted)
    assert outcome.run == "r1"


async def test_a_change_while_the_lease_is_renewed_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, orders = MemoryBus.put, [an_order(a_sleepy_subject(predict_ms=60_000))]
    async with serving(MemoryServer(), tmp_path, heartbeat_s=3600.0) as scheduler:

        async def meanwhile(bus: MemoryBus, bucket: str, key: str, value: bytes, **v: Any) -> int:
            if b"e1/r0/1" in value and len(orders) == 1:
                orders.append(an_order(runs=(a_run("r1"),), session="s1"))
                await scheduler.command("start", orders[1])
            return await put(bus, bucket, key, value, **v)

        monkeypatch.setattr(MemoryBus, "put", meanwhile)
        await scheduler.command("start", orders[0])
        assert await scheduler.busy_with(2) == {"e1/r0/1", "e1/r1/1"}


async def test_a_run_is_stopped_on_command(scheduler: Scheduler) -> None:
    order = an_order(a_sleepy_subject(predict_ms=20), (a_run(queries=1000),))
    await scheduler.command("start", order)
    await scheduler.facts(QueriesAnswered)
    answer = await scheduler.command("stop", {**named(order), "reason": "cancelled"})
    assert answer.accepted
    (failure,) = await scheduler.facts(RunFailed)
    assert (failure.error, failure.message) == ("stopped", "cancelled")


async def test_a_newer_attempt_ends_the_older(scheduler: Scheduler) -> None:
    runs = (a_run(queries=1000),)
    await scheduler.command("start", an_order(a_sleepy_subject(predict_ms=20), runs))
    await scheduler.facts(QueriesAnswered)
    again = an_order(a_sleepy_subject(), attempt=2)
    assert (await scheduler.command("start", again)).accepted
    (failure,) = await scheduler.facts(RunFailed)
    assert (failure.attempt, failure.message) == (1, "attempt 2 was ordered")
    assert (await scheduler.facts(RunCompleted))[0].attempt == 2


async def test_a_run_is_stopped_before_it_began(scheduler: Scheduler) -> None:
    slow = an_order(a_sleepy_subject(predict_ms=20), (a_run(queries=50),))
    later = an_order(runs=(a_run("later"),), session="s1")
    await scheduler.command("start", slow)
    await scheduler.command("start", later)
    assert (await scheduler.command("stop", named(later, "later"))).accepted
    (failure,) = await scheduler.facts(RunFailed)
    assert (failure.run, failure.error) == ("later", "stopped")


async def test_what_is_not_there_can_t_be_stopped(scheduler: Scheduler) -> None:
    answer = await scheduler.command("stop", named(an_order()))
    assert (answer.accepted, answer.error) == (False, "unknown")


@pytest.mark.parametrize("verb", ["start", "stop", "close", "finish"])
async def test_a_malformed_command_is_told_so(scheduler: Scheduler, verb: str) -> None:
    answer = await scheduler.command(verb, {"evaluation": 5})
    assert (answer.accepted, answer.error) == (False, "malformed")


async def test_remote_queries_are_answered_and_tallied(scheduler: Scheduler) -> None:
    order = an_order(a_subject(), (a_run(pacing="remote", queries=20),))
    await scheduler.command("start", order)
    await scheduler.facts(RunReady)
    answers = await asyncio.gather(*(scheduler.query(order, index, index) for index in range(20)))
    told = [(answer["query"], answer["status"], answer["service_ns"] > 0) for answer in answers]
    assert told == [(number, 0, True) for number in range(20)]
    assert (await scheduler.query(order, 20, 999))["error"] == "samples are numbered 0 to 63"
    issued = {"query_batches": 3, "queries": 21, "failed_queries": 1}
    assert (await scheduler.command("finish", {**named(order), **issued})).accepted
    (outcome,) = await scheduler.facts(RunCompleted)
    tally = outcome.tally
    assert (tally.query_batches, tally.queries, tally.spans) == (3, 21, 2 * 20)
    assert outcome.caveats == ("1 of 21 queries failed",)
    assert await scheduler.bus.read(facts_of(QueriesAnswered)) == []


async def test_more_queries_wait_than_other_commands_may(scheduler: Scheduler) -> None:
    order = an_order(a_sleepy_subject(), (a_run(pacing="remote", queries=1500),))
    await scheduler.command("start", order)
    await scheduler.facts(RunReady)
    asking = (scheduler.query(order, index, index % 64, timeout_s=60) for index in range(1500))
    answers = await asyncio.gather(*asking)
    assert {(answer["status"], answer["error"]) for answer in answers} == {(0, "")}
    await scheduler.command("stop", named(order))
    await scheduler.facts(RunFailed)


async def test_waiting_at_the_agent_is_in_a_query_s_span(scheduler: Scheduler) -> None:
    """Two hundred at once: each is in the agent before the first is through."""
    order = an_order(a_sleepy_subject(predict_ms=5), (a_run(pacing="remote", queries=200),))
    await scheduler.command("start", order)
    await scheduler.facts(RunReady)
    await asyncio.gather(*(scheduler.query(order, index, 0, timeout_s=60) for index in range(200)))
    issued = {"query_batches": 0, "queries": 200, "failed_queries": 0}
    await scheduler.command("finish", {**named(order), **issued})
    await scheduler.facts(RunCompleted)
    traces = [columns_of(fact) for fact in await scheduler.facts(TraceCaptured)]
    roots = [
        (int(start), int(start + duration))
        for each in traces
        for start, duration, level in zip(
            each["start_ns"], each["duration_ns"], each["level"], strict=True
        )
        if level == Level.APPLICATION
    ]
    assert len(roots) == 200
    through = sorted(end for _, end in roots)
    assert sum(start < through[99] for start, _ in roots) == 200


async def test_past_the_bound_a_query_is_answered_as_busy(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.agent.host.remote_queries.MOST_WAITING", 3)
    order = an_order(a_sleepy_subject(predict_ms=300), (a_run(pacing="remote"),))
    await scheduler.command("start", order)
    await scheduler.facts(RunReady)
    answers = await asyncio.gather(*(scheduler.query(order, index, 0) for index in range(5)))
    assert [answer["status"] for answer in answers] == [0, 0, 0, 1, 1]
    assert answers[4] == {"query": 4, "status": 1, "service_ns": 0, "error": "busy"}
    await scheduler.command("stop", named(order))
    await scheduler.facts(RunFailed)


async def test_samples_may_travel_with_a_remote_query(scheduler: Scheduler) -> None:
    order = an_order(a_subject(), (a_run(pacing="remote"),))
    await scheduler.command("start", order)
    await scheduler.facts(RunReady)
    good = np.ones(4, "<f4").tobytes()
    assert (await scheduler.query(order, 0, 0, payload=[good]))["status"] == 0
    short = await scheduler.query(order, 1, 0, payload=[good[:7]])
    assert short["status"] == 1
    assert "buffer size" in short["error"]
    two = await scheduler.query(order, 2, 0, payload=[good, good])
    assert two["error"] == "malformed query: the numbers of payloads and samples differ"
    await scheduler.command("stop", named(order))
    await scheduler.facts(RunFailed)


async def test_a_remote_query_of_an_older_attempt_is_refused(scheduler: Scheduler) -> None:
    order = an_order(a_subject(), (a_run(pacing="remote"),), attempt=2)
    await scheduler.command("start", order)
    await scheduler.facts(RunReady)
    old = order.model_copy(update={"attempt": 1})
    answer = await scheduler.query(old, 0, 0)
    assert answer["status"] == 1
    assert answer["error"].startswith("stale")
    await scheduler.command("stop", named(order))
    await scheduler.facts(RunFailed)


async def test_leaving_is_said_and_no_worker_stays(tmp_path: Path) -> None:
    server = MemoryServer()
    async with serving(server, tmp_path) as scheduler:
        order = an_order(a_sleepy_subject(predict_ms=20), (a_run(queries=1000),))
        await scheduler.command("start", order)
        await scheduler.facts(QueriesAnswered)
    async with connect(server, "scheduler") as bus:
        after = Scheduler(bus, server)
        assert len(await after.facts(AgentLeft)) == 1
        assert await after.lease() is None
        assert await bus.read(facts_of(RunFailed)) == []
    assert [path.name for path in (tmp_path / "agents" / "a1").iterdir()] == []


async def test_a_restart_is_another_incarnation(tmp_path: Path) -> None:
    server = MemoryServer()
    for _ in range(2):
        async with serving(server, tmp_path) as scheduler:
            pass
    async with connect(server, "scheduler") as bus:
        said = await Scheduler(bus, server).facts(AgentAnnounced, 2)
    assert said[0].announcement.incarnation != said[1].announcement.incarnation
    assert scheduler is not None


async def test_a_second_agent_of_a_name_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    server = MemoryServer()
    async with serving(server, tmp_path) as scheduler:
        order = an_order(a_sleepy_subject(predict_ms=20), (a_run(queries=100),))
        await scheduler.command("start", order)
        await scheduler.facts(QueriesAnswered)
        async with connect(server, "agent") as bus:
            with pytest.raises(NameTaken):
                await serve(bus, Small(tmp_path), asyncio.Event())
        assert (await scheduler.facts(RunCompleted))[0].tally.queries == 100
        assert len(await scheduler.facts(AgentAnnounced)) == 1
        assert await scheduler.lease() is not None


async def test_an_agent_that_lost_its_lease_announces_itself_again(scheduler: Scheduler) -> None:
    await scheduler.bus.delete("leases", "agent-a1")
    first, again = await scheduler.facts(AgentAnnounced, 2)
    assert first.announcement == again.announcement
    lease = await scheduler.held_lease()
    assert lease.incarnation == first.announcement.incarnation


async def test_a_server_that_was_away_gets_everything(tmp_path: Path) -> None:
    server = MemoryServer()
    async with serving(server, tmp_path) as scheduler:
        order = an_order(a_sleepy_subject(predict_ms=10), (a_run(queries=60),))
        await scheduler.command("start", order)
        await scheduler.facts(QueriesAnswered)
        server.stop()
        await asyncio.sleep(0.5)
        server.start()
        (outcome,) = await scheduler.facts(RunCompleted)
        queries = await scheduler.facts(QueriesAnswered)
    assert sum(fact.count for fact in queries) == outcome.tally.queries == 60


async def test_an_agent_without_its_broker_ends_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    publish = MemoryBus.publish

    async def cut_off(bus: MemoryBus, fact: Fact, **more: Any) -> int:
        if isinstance(fact, AgentLeft):
            await asyncio.Event().wait()
        return await publish(bus, fact, **more)

    monkeypatch.setattr(MemoryBus, "publish", cut_off)
    monkeypatch.setattr("services.agent.service._LEAVE_WITHIN_S", 0.1)
    async with asyncio.timeout(30), serving(MemoryServer(), tmp_path):
        pass
    assert "ended without notice" in caplog.text


async def test_an_agent_that_starts_offline_announces_the_hub_once_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("services.agent.fetching.host_watch.HOSTS", {})
    monkeypatch.setattr("services.agent.fetching.host_watch.RETRY_S", 0.05)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        async with serving(MemoryServer(), tmp_path, hub_url=url) as scheduler:
            (offline,) = await scheduler.facts(AgentAnnounced)
            assert offline.announcement.has_hub is False
            assert "refused" in offline.announcement.hub_reason
            with web_server.serving(bound=bound):
                _, online = await scheduler.facts(AgentAnnounced, 2)
    found = online.announcement
    assert (found.has_hub, found.hub_reason) == (True, "")
    assert found.incarnation == offline.announcement.incarnation


async def test_a_hub_that_is_found_is_announced_between_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("services.agent.fetching.host_watch.HOSTS", {})
    monkeypatch.setattr("services.agent.fetching.host_watch.RETRY_S", 0.01)
    first, second = (
        an_order(a_sleepy_subject(predict_ms=20), (a_run(run, queries=9_000),), session=run)
        for run in ("r0", "r1")
    )
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        async with serving(MemoryServer(), tmp_path, hub_url=url) as scheduler:
            await scheduler.command("start", first)
            await scheduler.command("start", second)
            await scheduler.facts(QueriesAnswered)
            before = len(await scheduler.facts(AgentAnnounced))
            with web_server.serving(bound=bound) as site:
                await scheduler.until(lambda: bool(site.asked))
                # Whoever announced at once would have done so long before this.
                await asyncio.sleep(0.3)
                assert len(await scheduler.facts(AgentAnnounced)) == before
                await scheduler.command("stop", named(first, "r0"))
                announced = await scheduler.facts(AgentAnnounced, before + 1)
    assert announced[before].announcement.has_hub is True


async def test_a_hub_that_hangs_holds_up_no_start_and_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("services.agent.fetching.host_watch.HOSTS", {})
    monkeypatch.setattr("services.agent.fetching.host_watch.FIRST_S", 0.05)
    monkeypatch.setattr("services.agent.fetching.host_watch.LIMIT_S", 600.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with serving(MemoryServer(), tmp_path, hub_url=url) as scheduler:
            (announced,) = await scheduler.facts(AgentAnnounced)
            assert announced.announcement.hub_reason == f"{url} did not answer within 0.05 s"
            await scheduler.command("start", an_order())
            assert await scheduler.facts(RunCompleted)
