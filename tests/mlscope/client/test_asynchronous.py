"""`AsyncClient` and its handle on an evaluation, against stand-ins."""

import pytest

from mlscope.client import (
    AsyncClient,
    CommandRefused,
    EvaluationRefused,
    NoSuchTable,
    StillRunning,
)
from schemas.request import AgentReason
from tests.stories import E, StandIns, a_run, beginning, ending, whole_story


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


async def test_a_wait_is_bounded_and_the_evaluation_goes_on(
    client: AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    evaluation = await client.evaluation(E)
    with pytest.raises(StillRunning):
        await evaluation.wait(timeout_s=0.05)
    await standing.tell(*a_run("r0"), *a_run("r1"), *ending())
    assert (await evaluation.wait()).state == "analyzed"


async def test_a_handle_reads_cancels_and_follows(client: AsyncClient, standing: StandIns) -> None:
    await standing.tell(*whole_story())
    evaluation = await client.evaluation(E)
    states: list[str] = []
    ended = await evaluation.follow(lambda progress: states.append(progress.status.state))
    assert (states[-1], ended.state) == ("analyzed", "analyzed")
    assert (await evaluation.table("latency")).rows()[0]["run"] == "r0"
    with pytest.raises(NoSuchTable):
        await evaluation.table("none")
    await evaluation.cancel("enough")
    assert len(standing.cancelled) == 1


async def test_what_is_known_is_listed(client: AsyncClient, standing: StandIns) -> None:
    await standing.tell(*whole_story())
    assert [each.evaluation for each in await client.evaluations(limit=5)] == [E]
    assert [model.name for model in (await client.catalog("model")).models] == ["tiny"]


async def test_a_match_says_who_would_run_a_request(
    client: AsyncClient, standing: StandIns
) -> None:
    matched = await client.match("tiny", scenarios=["online"])
    assert [agent.agent for agent in matched.agents] == ["a1"]
    assert [request.model for request in standing.matched] == ["tiny"]


def test_a_client_is_used_inside_its_block() -> None:
    with pytest.raises(AssertionError, match="async with"):
        _ = AsyncClient().bus
