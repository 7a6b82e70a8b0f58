"""Commands to agents: repeated while that may help, and no longer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from mlscope.bus.records import ReceivedCommand
from schemas.encoding.codec import decode_body, encode_body, unpack
from schemas.plan import WorkAnswer, WorkOrder
from schemas.subjects import agent_command
from services.scheduler.agent_commands import AgentCommands
from services.scheduler.evaluation.effects import Effect, Issue, Start, effects
from tests.services.scheduler.evaluation.test_effects import CLOSE, ISSUE, RUN, START, STOP, started
from tests.services.scheduler.samples import a_request
from tests.services.scheduler.worlds import QUICK, World, a_world, scheduling

PATIENT = replace(QUICK, run_grace_s=600.0)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the scheduler repeat its commands soon."""
    monkeypatch.setattr("services.scheduler.service.POLL_S", 0.05)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world() as lent:
        yield lent


@pytest.mark.parametrize("error", ["unknown", "malformed", ""])
async def test_a_start_refused_for_good_fails_the_run_with_the_cause(
    world: World, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "services.scheduler")
    async with scheduling(world, replace(PATIENT, attempts_lost=1)):
        agent = await world.an_agent(refuses=[error] * 1000)
        evaluation = await world.evaluate(a_request())
        status = await world.becomes(evaluation, "failed", within_s=30.0)
    assert status.cause == f"agent a1 would not start it: {error or 'no reason given'}"
    assert 1000 - len(agent.refuses) < 20
    refused = next(each for each in caplog.records if "is not accepted" in each.message)
    fields = vars(refused)
    assert (fields["evaluation"], fields["agent"]) == (evaluation, "a1")
    assert fields["run"] in {run.run for run in status.runs}
    (failed,) = [each for each in caplog.records if each.message == "an evaluation failed"]
    fields = vars(failed)
    assert (failed.levelname, fields["evaluation"]) == ("WARNING", evaluation)
    assert fields["cause"] == status.cause


async def test_a_start_refused_for_now_is_repeated_until_it_is_taken(world: World) -> None:
    async with scheduling(world, PATIENT):
        agent = await world.an_agent(refuses=["busy", "stale", "stopping"] * 3)
        evaluation = await world.evaluate(a_request())
        status = await world.becomes(evaluation, "analyzed", within_s=30.0)
    assert (status.runs[0].attempt, agent.refuses) == (1, [])


async def test_another_agent_does_what_one_would_not_start(world: World) -> None:
    async with scheduling(world, PATIENT):
        stubborn = await world.an_agent("a1", refuses=["unknown"] * 1000)
        evaluation = await world.evaluate(a_request())
        await world.becomes(evaluation, "running")
        willing = await world.an_agent("a2")
        status = await world.becomes(evaluation, "analyzed", within_s=40.0)
    assert [(run.agent, run.attempt) for run in status.runs] == [("a2", 3)]
    assert (stubborn.orders, [order.attempt for order in willing.orders]) == ([], [3])


class Obeying:
    """A commander of an agent that gives these answers in turn, then takes everything."""

    def __init__(self, world: World, *errors: str) -> None:
        self.told: list[tuple[str, bytes]] = []
        self.claimed: list[Issue] = []
        self.given_up: list[tuple[Start, str]] = []
        self.commander = AgentCommands(world.client, self.claimed.append, self._give_up)
        self._world = world
        self._errors = list(errors)

    async def open(self) -> None:
        """Answer as the agent."""
        await self._world.client.answer(agent_command("a1", "*"), self._answer, queue=None)

    async def _give_up(self, start: Start, cause: str) -> None:
        self.given_up.append((start, cause))

    async def _answer(self, asked: ReceivedCommand) -> bytes:
        self.told.append((asked.subject.rsplit(".", 1)[-1], asked.body))
        if self._errors:
            return encode_body(WorkAnswer(accepted=False, error=self._errors.pop(0)))
        return encode_body(WorkAnswer(accepted=True))

    async def quiet(self) -> None:
        """Wait until no command is on its way."""
        for _ in range(1000):
            if not self.commander.under_way:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("commands are on their way")


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat at once."""
    monkeypatch.setattr("services.scheduler.agent_commands._PAUSE_S", 0.0)


async def test_what_was_done_is_not_done_again(world: World) -> None:
    obeying, story = Obeying(world), started("poisson")
    await obeying.open()
    for _ in range(3):
        obeying.commander.carry_out(story.state, list(effects(story.state, story.fleet())))
        await obeying.quiet()
    [(verb, body)] = obeying.told
    order = decode_body(WorkOrder, body)
    assert (verb, order.runs, order.attempt, order.agent) == ("start", (RUN,), 1, "a1")
    obeying.commander.forget_all_but([])
    obeying.commander.carry_out(story.state, [START])
    await obeying.quiet()
    assert len(obeying.told) == 2, "an agent knows an order it has; asking again does no harm"


async def test_a_command_on_its_way_is_not_sent_again(world: World) -> None:
    obeying, story = Obeying(world), started("poisson")
    await obeying.open()
    for _ in range(3):
        obeying.commander.carry_out(story.state, [START, STOP])
    assert obeying.commander.under_way == 2
    await obeying.quiet()
    assert sorted(verb for verb, _ in obeying.told) == ["start", "stop"]


async def test_a_load_is_claimed_and_not_commanded(world: World) -> None:
    obeying = Obeying(world)
    obeying.commander.carry_out(started("poisson").state, [ISSUE])
    assert (obeying.claimed, obeying.commander.under_way) == ([ISSUE], 0)


@pytest.mark.usefixtures("no_pause")
async def test_the_last_commands_of_an_evaluation_are_repeated_a_few_times(world: World) -> None:
    obeying, story = Obeying(world, "busy", "busy", "busy"), started("poisson")
    await obeying.open()
    story.cancel()
    obeying.commander.carry_out(story.state, [CLOSE])
    await obeying.quiet()
    assert [verb for verb, _ in obeying.told] == ["close"] * 4
    assert unpack(obeying.told[-1][1]) == {"evaluation": "e1", "session": "b1"}


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("effect", [STOP, CLOSE])
async def test_what_an_agent_does_not_know_is_stopped_and_closed(
    world: World, effect: Effect
) -> None:
    obeying, story = Obeying(world, *["unknown"] * 9), started("poisson")
    await obeying.open()
    story.cancel()
    obeying.commander.carry_out(story.state, [effect])
    await obeying.quiet()
    assert len(obeying.told) == 1


async def test_an_agent_that_is_away_is_asked_again_and_given_nothing_up(world: World) -> None:
    obeying, story = Obeying(world), started("poisson")
    for _ in range(7):
        obeying.commander.carry_out(story.state, [START])
        await obeying.quiet()
    assert obeying.given_up == []
    await obeying.open()
    obeying.commander.carry_out(story.state, [START])
    await obeying.quiet()
    assert [verb for verb, _ in obeying.told] == ["start"]


async def test_refusals_are_counted_for_each_start_until_its_evaluation_is_forgotten(
    world: World,
) -> None:
    obeying, story = Obeying(world, *["unknown"] * 9), started("poisson")
    await obeying.open()
    for turn in range(9):
        if turn == 4:
            obeying.commander.forget_all_but([])
        obeying.commander.carry_out(story.state, [START])
        await obeying.quiet()
        assert len(obeying.given_up) == (turn == 8)
    assert obeying.given_up == [(START, "agent a1 would not start it: unknown")]
