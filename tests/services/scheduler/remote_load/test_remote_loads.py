"""Claims of remote loads, and what becomes of those that can't be issued or finished."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Unreachable
from mlscope.bus.streams import STREAMS
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import encode_body, unpack
from schemas.evaluation import EvaluationRequested, RunInterrupted
from schemas.message import Fact
from schemas.plan import WorkAnswer
from schemas.run import RunReady
from schemas.subjects import agent_command, decisions_of
from services.scheduler.decision_log import DecisionLog
from services.scheduler.errors import IssuerFailed
from services.scheduler.evaluation.decide import decide, decide_cancel
from services.scheduler.evaluation.effects import Issue, Start, order_of
from services.scheduler.evaluation.index import EvaluationIndex
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.placement.fleet import Fleet, Limits
from services.scheduler.remote_load.issued import LoadRecord
from services.scheduler.remote_load.processes import BrokerAddress, OnFinal
from services.scheduler.remote_load.remote_loads import RemoteLoads, continuation_of_run, finish_run
from tests.services.scheduler.samples import a_catalog, a_request

E, RUN = "e1", "b1-poisson-model"
ISSUE = Issue("a1", E, RUN, 1)
NOWHERE = BrokerAddress("nats://127.0.0.1:1", None, "_INBOX")


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with connect(MemoryServer(), "scheduler") as lent:
        yield lent


async def decides(state: EvaluationState) -> Sequence[Fact]:
    return decide(state, time.time_ns(), Fleet(a_catalog()))


async def ready(bus: Bus) -> EvaluationState:
    """Have a remote run in the log whose agent is ready for its load."""
    recorder = DecisionLog(bus, EvaluationIndex())
    request = a_request(scenarios=[{"name": "poisson", "parameters": {"queries": 3}}])
    asked = EvaluationRequested(evaluation=E, request=request, requested_ns=time.time_ns())
    await recorder.record(EvaluationState(), [asked])
    await recorder.settle(E, decides)
    await bus.publish(RunReady(evaluation=E, run=RUN, attempt=1, agent="a1"), id="ready")
    return await recorder.current(E)


def remote_loads(bus: Bus, instance: str = "s1", **changes: Any) -> RemoteLoads:
    """Return the loads of one scheduler instance, whose processes reach no broker."""
    log = DecisionLog(bus, EvaluationIndex())
    return RemoteLoads(bus, log, NOWHERE, instance, **changes)


async def over(loads: RemoteLoads) -> None:
    """Wait until nothing is issued any more."""
    for _ in range(3000):
        if not loads.under_way:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it goes on")


async def decided(bus: Bus) -> list[Fact]:
    return [recorded.fact for recorded in await bus.read(decisions_of(E))]


async def test_one_of_two_instances_claims_a_load_and_says_why_it_failed(bus: Bus) -> None:
    await ready(bus)
    both = [remote_loads(bus, "s1"), remote_loads(bus, "s2")]
    for loads in both * 2:
        loads.claim(ISSUE)
    assert [loads.under_way for loads in both] == [1, 1]
    for loads in both:
        await over(loads)
    names = [fact.happened for fact in await decided(bus)]
    assert names == ["requested", "planned", "started", "issued", "interrupted"]
    last = (await decided(bus))[-1]
    assert isinstance(last, RunInterrupted)
    assert last.cause.startswith("its load could not be issued: ")
    assert not last.final


async def test_who_did_not_get_the_claim_issues_nothing(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready(bus)
    issued_by: list[BrokerAddress] = []

    async def issues(where: BrokerAddress, *_: object, **__: object) -> LoadRecord:
        issued_by.append(where)
        raise IssuerFailed("broken")

    monkeypatch.setattr("services.scheduler.remote_load.remote_loads.issue_load", issues)
    both = [remote_loads(bus, "s1"), remote_loads(bus, "s2")]
    for loads in both:
        loads.claim(ISSUE)
    for loads in both:
        await over(loads)
    assert len(issued_by) == 1


async def test_an_end_that_could_not_be_recorded_is_recorded_later(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready(bus)
    loads, publish, refused = remote_loads(bus), bus.publish, list[str]()

    async def once_away(fact: Fact, **said: Any) -> int:
        if isinstance(fact, RunInterrupted) and not refused:
            refused.append(said["id"])
            raise Unreachable("away")
        return await publish(fact, **said)

    monkeypatch.setattr(bus, "publish", once_away)
    loads.claim(ISSUE)
    await over(loads)
    assert refused
    assert [fact.happened for fact in await decided(bus)][-1] == "interrupted"


async def test_the_last_attempt_that_is_lost_is_final(bus: Bus) -> None:
    await ready(bus)
    loads = remote_loads(bus, limits=Limits(attempts_lost=1))
    loads.claim(ISSUE)
    await over(loads)
    last = (await decided(bus))[-1]
    assert isinstance(last, RunInterrupted)
    assert last.final


@pytest.mark.parametrize("claimed", [Issue("a1", E, RUN, 2), Issue("a1", E, "other", 1)])
async def test_an_attempt_that_is_not_under_way_is_not_claimed(bus: Bus, claimed: Issue) -> None:
    await ready(bus)
    loads = remote_loads(bus)
    loads.claim(claimed)
    await over(loads)
    assert [fact.happened for fact in await decided(bus)][-1] == "started"


async def test_a_load_whose_attempt_is_over_is_dropped_without_a_word(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = await ready(bus)
    loads = remote_loads(bus)
    begun = asyncio.Event()

    async def endless(*_: object, **__: object) -> LoadRecord:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr("services.scheduler.remote_load.remote_loads.issue_load", endless)
    loads.claim(ISSUE)
    async with asyncio.timeout(60):
        await begun.wait()
    loads.cancel_ended(state)
    assert loads.under_way == 1, "it is under way as far as this state tells"
    recorder = DecisionLog(bus, EvaluationIndex())
    loads.cancel_ended(await recorder.settle(E, cancels))
    await over(loads)
    names = [fact.happened for fact in await decided(bus)]
    assert names[-2:] == ["interrupted", "cancelled"]


async def cancels(state: EvaluationState) -> Sequence[Fact]:
    return [] if state.is_ended else decide_cancel(state, "enough")


async def finishing(bus: Bus, *answers: WorkAnswer) -> list[bytes]:
    """Finish a load with an agent that answers so in turn; return what it was told."""
    told: list[bytes] = []
    left = list(answers)

    async def answer(asked: object) -> bytes:
        told.append(asked.body)  # type: ignore[attr-defined]
        return encode_body(left.pop(0))

    await bus.answer(agent_command("a1", "finish"), answer, queue=None)
    await finish_run(bus, "a1", b"body", 60.0)
    assert left == []
    return told


@pytest.mark.parametrize(
    "last", [WorkAnswer(accepted=True), WorkAnswer(accepted=False, error="stale")]
)
async def test_an_agent_is_told_of_the_end_until_it_has_heard(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, last: WorkAnswer
) -> None:
    monkeypatch.setattr("services.scheduler.remote_load.remote_loads._PAUSE_S", 0.01)
    busy = WorkAnswer(accepted=False, error="busy")
    assert await finishing(bus, busy, busy, last) == [b"body"] * 3


async def test_an_agent_that_cannot_finish_a_load_breaks_it(bus: Bus) -> None:
    with pytest.raises(IssuerFailed, match="would not finish it: no room"):
        await finishing(bus, WorkAnswer(accepted=False, error="unknown", message="no room"))


@pytest.mark.parametrize("answers", [True, False])
async def test_an_agent_that_never_hears_of_the_end_breaks_it(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setattr("services.scheduler.remote_load.remote_loads._PAUSE_S", 0.01)

    async def busy(_: object) -> bytes:
        return encode_body(WorkAnswer(accepted=False, error="busy"))

    if answers:
        await bus.answer(agent_command("a1", "finish"), busy, queue=None)
    async with asyncio.timeout(60):
        with pytest.raises(IssuerFailed, match=r"did not accept its end for 0\.05 s"):
            await finish_run(bus, "a1", b"body", 0.05)


async def test_what_was_issued_is_told_to_the_agent(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = await ready(bus)
    told: list[dict[str, object]] = []

    async def hear(asked: object) -> bytes:
        told.append(unpack(asked.body))  # type: ignore[attr-defined]
        return encode_body(WorkAnswer(accepted=True))

    async def issued(*_: object, **__: object) -> LoadRecord:
        due, zeros = np.zeros(3, np.int64), np.zeros(3, np.int64)
        return LoadRecord(0, due, zeros, zeros, zeros, np.array([0, 1, 2], np.int8), {})

    monkeypatch.setattr("services.scheduler.remote_load.remote_loads.issue_load", issued)
    await bus.answer(agent_command("a1", "finish"), hear, queue=None)
    loads = remote_loads(bus)
    loads.claim(ISSUE)
    await over(loads)
    assert state.runs[RUN].is_ready
    assert [(each["queries"], each["failed_queries"], each["lost_queries"]) for each in told] == [
        (3, 2, 1)
    ]
    assert (told[0]["run"], told[0]["attempt"], told[0]["query_batches"]) == (RUN, 1, 0)
    assert msgpack.packb(told[0]), "it is plain data"


async def test_a_stream_without_room_ends_the_attempt_and_is_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def issued(*given: object, on_final: OnFinal, **_: object) -> LoadRecord:
        due, zeros = np.zeros(3, np.int64), np.zeros(3, np.int64)
        load = LoadRecord(0, due, zeros, zeros, zeros, np.zeros(3, np.int8), {})
        await on_final(load, np.arange(3, dtype=np.int32))
        return load

    monkeypatch.setattr("services.scheduler.remote_load.remote_loads.issue_load", issued)
    streams = [replace(s, max_bytes=1) if s.name == "QUERIES" else s for s in STREAMS]
    async with connect(MemoryServer(streams=streams), "scheduler") as bus:
        await ready(bus)
        loads = remote_loads(bus, lost_after_s=0.1)
        loads.claim(ISSUE)
        await over(loads)
        last = (await decided(bus))[-1]
    assert isinstance(last, RunInterrupted)
    assert "its queries found no room for 0.1 s: stream full: mlscope.v1.query" in last.cause


async def test_a_load_is_the_one_the_agent_would_make(bus: Bus) -> None:
    state = await ready(bus)
    run = state.runs[RUN]
    order = order_of(state, Start("a1", E, run.session, 1, (RUN,)))
    load = continuation_of_run(order, run).load
    assert (load.scenario, load.queries, load.batch_size) == ("poisson", 3, 1)
    assert load.due_ns is not None
