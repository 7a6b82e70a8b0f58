"""A fact that the fold fails on, at the start and later: the service goes on without it."""

import asyncio
from collections.abc import Iterator
from typing import NoReturn

import pytest

from mlscope.bus.records import Recorded
from schemas.dead import LetterBuried
from schemas.evaluation import EvaluationRequested
from schemas.subjects import facts_of
from services.scheduler.evaluation import index, state
from services.scheduler.evaluation.state import EvaluationState
from tests.services.scheduler.samples import a_request
from tests.services.scheduler.worlds import World, a_world, scheduling


@pytest.fixture(autouse=True)
def cursed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the fold fail on everything about evaluations called so."""
    evolve = state.evolve

    def fail(name: str) -> NoReturn:
        raise ZeroDivisionError(name)

    def fragile(before: EvaluationState, recorded: Recorded) -> EvaluationState:
        name = str(getattr(recorded.fact, "evaluation", ""))
        return fail(name) if name.startswith("cursed") else evolve(before, recorded)

    for module in (index, state):
        monkeypatch.setattr(module, "evolve", fragile)
    return iter([None])


async def curse(world: World, name: str) -> int:
    """Record a request that cannot be folded."""
    fact = EvaluationRequested(evaluation=name, request=a_request(), requested_ns=1)
    return await world.client.publish(fact, id=name)


async def letters(world: World, count: int) -> list[LetterBuried]:
    """Return the dead letters once there are so many."""
    while True:
        facts = [recorded.fact for recorded in await world.client.read(facts_of(LetterBuried))]
        if len(facts) >= count:
            return [fact for fact in facts if isinstance(fact, LetterBuried)]
        await asyncio.sleep(0.02)


async def test_what_cannot_be_folded_is_buried_and_the_service_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with asyncio.timeout(60), a_world() as world:
        places = [await curse(world, "cursed1")]
        async with scheduling(world):
            await world.an_agent()
            places.append(await curse(world, "cursed2"))
            buried = await letters(world, 2)
            evaluation = await world.evaluate(a_request())
            await world.becomes(evaluation, "analyzed")
    assert [letter.sequence for letter in buried] == places
    passed_over = [each for each in caplog.records if each.message.startswith("passed over")]
    names = [vars(record)["evaluation"] for record in passed_over]
    assert names == ["cursed1", "cursed2"]
    assert {letter.reason for letter in buried} == {
        f"cannot be folded: ZeroDivisionError: cursed{n}" for n in (1, 2)
    }
    assert {(letter.service, letter.stream) for letter in buried} == {("scheduler", "EVALUATIONS")}
