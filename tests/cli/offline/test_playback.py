"""A plan run offline for real, and its bundle played back to whoever orders its runs."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from cli import exits
from cli.failures import Misused
from cli.offline.bundle import Bundle, read
from cli.offline.bundle_request import request_of
from cli.offline.planning import offline_plan, presumed_agent
from cli.offline.playback import Playback
from mlscope.bus.bus import Bus
from mlscope.bus.records import Recorded
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.agent import AgentAnnounced, Announcement, Hardware
from schemas.encoding.codec import decode_body, encode_body
from schemas.level import Level
from schemas.plan import OfflinePlan, WorkAnswer, WorkOrder
from schemas.request import Evaluate
from schemas.run import RunCompleted
from schemas.subjects import agent_command, facts_of, story_of
from services.agent.errors import NameTaken
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import plan as plan_match
from tests.cli.conftest import CommandLine
from tests.cli.offline.shipped import shipped

ARGUMENTS = ("--scenario", "online:queries=6", "--batch-size", "1,2", "--trace-level", "framework")


SERIALISED = ("--scenario", "online:queries=3", "--serialised", "--trace-level", "framework")
COLD = ("--scenario", "online:queries=2", "--scenario", "cold:queries=2,warm=2")


@cache
def bundle_bytes(arguments: tuple[str, ...]) -> bytes:
    """Plan and measure with `arguments`, once for all tests that want the same bundle."""
    with tempfile.TemporaryDirectory() as name:
        alone = CommandLine(MLSCOPE_DATA=name)
        plan, out = Path(name, "plan.json"), Path(name, "bundle")
        assert alone.run("plan", "tiny-cnn", *arguments, "--out", str(plan)).code == exits.OK
        ended = alone.run("agent", "--plan", str(plan), "--out", str(out))
        assert ended.code == exits.OK, ended.err
        return out.read_bytes()


def made_bundle(folder: Path, arguments: tuple[str, ...] = ARGUMENTS) -> Bundle:
    """Write the bundle of `arguments` into the test's own folder."""
    (folder / "bundle").write_bytes(bundle_bytes(arguments))
    return read(folder / "bundle")


def replanned(bundle: Bundle) -> OfflinePlan:
    """Plan anew what the bundle asks for, as the scheduler will."""
    return offline_plan(request_of(bundle, "k"), shipped())


def order_of(
    plan: OfflinePlan, evaluation: str, *, renamed: str = "", number: int = 0
) -> WorkOrder:
    session = plan.plan.sessions[number]
    runs = tuple(run.model_copy(update={"run": f"{renamed}{run.run}"}) for run in session.runs)
    return WorkOrder(
        evaluation=evaluation,
        attempt=3,
        agent=session.agent,
        session=session.model_copy(update={"runs": runs}),
        subject=plan.plan.subject,
        runs=tuple(run.run for run in runs),
    )


async def ordered(bus: Bus, order: WorkOrder) -> WorkAnswer:
    body = await bus.ask(agent_command(order.agent, "start"), encode_body(order))
    return decode_body(WorkAnswer, body)


async def test_a_bundle_asks_for_its_own_plan(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path)
    anew = replanned(bundle).plan.sessions
    assert [s.model_dump() for s in anew] == [s.model_dump() for s in bundle.plan.sessions]


@pytest.mark.parametrize("arguments", [SERIALISED, COLD, COLD[2:] + COLD[:2], COLD[2:]])
@pytest.mark.parametrize("is_old", [False, True])
async def test_a_bundle_of_variants_asks_for_its_own_plan(
    tmp_path: Path, arguments: tuple[str, ...], is_old: bool
) -> None:
    bundle = planned_bundle(tmp_path, planned_alone(arguments), is_old=is_old)
    anew = replanned(bundle).plan.sessions
    assert [s.model_dump() for s in anew] == [s.model_dump() for s in bundle.plan.sessions]


def counters_alone(made: OfflinePlan) -> OfflinePlan:
    """Return a plan of nothing but counters: no request asks for that."""
    (session,) = made.plan.sessions
    run = session.runs[-1].model_copy(update={"level": Level.HARDWARE, "run": "counted"})
    alone = session.model_copy(update={"variant": "counters", "session": "c", "runs": (run,)})
    return made.model_copy(update={"plan": made.plan.model_copy(update={"sessions": (alone,)})})


@pytest.mark.parametrize("is_old", [False, True])
async def test_a_bundle_of_counters_alone_asks_for_its_own_plan(
    tmp_path: Path, *, is_old: bool
) -> None:
    made = planned_alone(("--scenario", "online:queries=2"))
    bundle = planned_bundle(tmp_path, counters_alone(made), is_old=is_old)
    async with (
        connect(MemoryServer(), "agent") as agent,
        Playback(agent, bundle, heartbeat_s=1.0).present(),
    ):
        (said,) = await agent.read(facts_of(AgentAnnounced))
    assert isinstance(said.fact, AgentAnnounced)
    collectors = said.fact.announcement.collectors
    there = presumed_agent(asked := request_of(bundle, "k"), asked.model)  # type: ignore[arg-type]
    told = there.announcement.model_copy(update={"collectors": collectors})
    catalog = shipped().model_copy(
        update={"agents": (there.model_copy(update={"announcement": told}),)}
    )
    (anew,) = plan_match(asked, match(asked, catalog, {}), catalog).sessions
    (was,) = bundle.plan.sessions
    (run,), (ran,) = anew.runs, was.runs
    assert (anew.variant, anew.batch_size) == (was.variant, was.batch_size)
    assert run.model_copy(update={"run": ran.run}) == ran


async def test_levels_that_are_not_of_its_kinds_are_not_asked_for_again(tmp_path: Path) -> None:
    made = planned_alone((*SERIALISED, "--levels", "model,framework"))
    session = made.plan.sessions[-1]
    (run,) = (each.model_copy(update={"level": Level.MODEL}) for each in session.runs)
    alone = session.model_copy(update={"runs": (run,)})
    plan = made.plan.model_copy(update={"sessions": (alone,)})
    bundle = planned_bundle(tmp_path, made.model_copy(update={"plan": plan}), is_old=False)
    asked = request_of(bundle, "k")
    assert (asked.variants, asked.levels) == (("serialised",), ())
    assert decode_body(Evaluate, encode_body(asked)) == asked


async def test_what_a_plan_does_not_tell_is_asked_for_as_it_was(tmp_path: Path) -> None:
    arguments = (*SERIALISED, "--label", "why=new", "--collector", "perf=off")
    bundle = planned_bundle(tmp_path, planned_alone(arguments))
    asked = request_of(bundle, "k")
    assert bundle.request is not None
    assert (asked.serialised, asked.collectors) == (True, {"perf": False})
    assert asked.labels == {"why": "new", "imported": "bundle", "measured_by": "offline"}


@pytest.mark.parametrize("arguments", [SERIALISED, pytest.param(COLD, marks=pytest.mark.long)])
async def test_each_run_is_answered_with_its_own_numbers(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    bundle = made_bundle(tmp_path, arguments)
    plan = replanned(bundle)
    async with playing(bundle) as (_, scheduler):
        for number, _ in enumerate(plan.plan.sessions):
            order = order_of(plan, "e1", renamed="new-", number=number)
            assert (await ordered(scheduler, order)).accepted
        ends = await outcomes(scheduler, sum(len(s.runs) for s in plan.plan.sessions))
    assert ends == {f"new-{run}": of for run, of in measured(bundle).items()}


@pytest.mark.parametrize(("more", "error"), [({"warm": 5}, ""), ({"queries": 3}, "unknown")])
async def test_a_catalog_may_fill_in_what_a_plan_does_not_say(
    tmp_path: Path, more: dict[str, int], error: str
) -> None:
    bundle = made_bundle(tmp_path, ("--scenario", "online:queries=2"))
    order = order_of(replanned(bundle), "e1")
    session = order.session
    runs = [run.model_copy(update={"parameters": run.parameters | more}) for run in session.runs]
    filled = session.model_copy(update={"runs": tuple(runs)})
    async with playing(bundle) as (_, scheduler):
        answer = await ordered(scheduler, order.model_copy(update={"session": filled}))
    assert (answer.accepted, answer.error) == (not error, error)


async def outcomes(bus: Bus, count: int) -> dict[str, int]:
    """Return when each run's clock started, once so many ended."""
    found: dict[str, int] = {}
    async with asyncio.timeout(60), aclosing(bus.follow(story_of("e1"))) as facts:
        async for each in facts:
            if each and isinstance(each.fact, RunCompleted):
                found[each.fact.run] = each.fact.origin.monotonic_ns
            if len(found) == count:
                break
    return found


def measured(bundle: Bundle) -> dict[str, int]:
    """Return when each run's clock started, by the bundle."""
    facts = (fact for run in bundle.positions for fact in bundle.facts(run))
    return {f.run: f.origin.monotonic_ns for f in facts if isinstance(f, RunCompleted)}


async def test_runs_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    made = planned_bundle(tmp_path, planned_alone(SERIALISED))
    twice = tuple(each.model_copy(update={"variant": ""}) for each in made.plan.sessions)
    bundle = replace(made, plan=made.plan.model_copy(update={"sessions": twice}))
    async with connect(MemoryServer(), "agent") as agent:
        with pytest.raises(Misused, match="cannot be distinguished"):
            Playback(agent, bundle, heartbeat_s=1.0)


@cache
def planned_alone(arguments: tuple[str, ...]) -> OfflinePlan:
    """Plan with `arguments` on no cluster, once for all tests that want the same plan."""
    ended = CommandLine().run("plan", "tiny-cnn", *arguments)
    assert ended.code == exits.OK, ended.err
    return OfflinePlan.model_validate_json(ended.out)


def planned_bundle(folder: Path, made: OfflinePlan, *, is_old: bool = False) -> Bundle:
    """Return a bundle in which nothing was measured yet; an old one without its request."""
    hardware = Hardware(hostname="h", architecture="x86_64")
    there = Announcement(agent="offline", incarnation="one", hardware=hardware, runtimes=())
    request = None if is_old else made.request
    return Bundle(folder / "bundle", "e0", made.plan, there, {}, (), request)


@asynccontextmanager
async def playing(bundle: Bundle) -> AsyncIterator[tuple[Playback, Bus]]:
    """Play a bundle back as evaluation e1; lend the playback and the scheduler's bus."""
    server = MemoryServer()
    async with connect(server, "agent") as agent, connect(server, "scheduler") as scheduler:
        playback = Playback(agent, bundle, heartbeat_s=1.0)
        async with playback.present():
            playback.expect("e1")
            yield playback, scheduler


async def test_orders_are_answered_with_what_was_measured(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path)
    async with playing(bundle) as (_, scheduler):
        order = order_of(replanned(bundle), "e1", renamed="new-")
        assert (await ordered(scheduler, order)).accepted
        assert (await ordered(scheduler, order)).accepted
        other = order.model_copy(update={"evaluation": "e2"})
        assert (await ordered(scheduler, other)).error == "busy"
        story: list[Recorded] = []
        async with asyncio.timeout(60), aclosing(scheduler.follow(story_of("e1"))) as facts:
            async for each in facts:
                story += [each] if each else []
                if len(story) == len(order.runs):
                    break
        ends = [each.fact for each in story]
        assert [end.run for end in ends if isinstance(end, RunCompleted)] == list(order.runs)
        assert {end.attempt for end in ends if isinstance(end, RunCompleted)} == {3}
        traced = await scheduler.read("mlscope.v1.trace.e1.>")
        told = sum(e.tally.spans for e in ends if isinstance(e, RunCompleted))
        assert sum(each.fact.count for each in traced) == told > 0  # type: ignore[attr-defined]


async def test_its_agent_is_announced_as_there_for_one_request(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path)
    async with (
        connect(MemoryServer(), "agent") as agent,
        Playback(agent, bundle, heartbeat_s=1.0, key="import e0").present(),
    ):
        (said,) = await agent.read(facts_of(AgentAnnounced))
    assert isinstance(said.fact, AgentAnnounced)
    assert said.fact.announcement.reserved_for == "import e0"


async def test_a_living_agent_of_its_name_keeps_its_lease(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path)
    async with connect(MemoryServer(), "agent") as agent:
        async with Playback(agent, bundle, heartbeat_s=0.2).present():
            held = await agent.get("leases", f"agent-{bundle.agent}")
            with pytest.raises(NameTaken):
                async with Playback(agent, bundle, heartbeat_s=2.0).present():
                    pass
            kept = await agent.get("leases", f"agent-{bundle.agent}")
            assert held is not None
            assert kept is not None
            assert kept.value == held.value
        assert await agent.get("leases", f"agent-{bundle.agent}") is None


async def test_what_is_not_in_it_is_told(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path)
    async with playing(bundle) as (playback, scheduler):
        order = order_of(replanned(bundle), "e1")
        session = order.session.model_copy(update={"batch_size": 64})
        answer = await ordered(scheduler, order.model_copy(update={"session": session}))
        assert answer.error == "unknown"
        assert f"holds no {order.runs[0]}" in await playback.gap


async def test_a_bundle_that_changes_while_it_plays_is_told(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path)
    async with playing(bundle) as (playback, scheduler):
        bundle.path.write_bytes(bundle.path.read_bytes()[:-200])
        assert (await ordered(scheduler, order_of(replanned(bundle), "e1"))).accepted
        async with asyncio.timeout(60):
            assert "was changed while it was imported" in await playback.gap
        told = await scheduler.read(story_of("e1"))
        assert not [each for each in told if isinstance(each.fact, RunCompleted)]


@pytest.mark.parametrize("content", [b"", b"MLSCOPE1", b"no bundle at all"])
async def test_a_broken_bundle_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    ended = await CommandLine(MLSCOPE_DATA=str(tmp_path))("import", str(path))
    assert ended.code == exits.USAGE
    assert "broken" in ended.err
