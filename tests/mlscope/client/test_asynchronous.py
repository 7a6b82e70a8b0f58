"""`AsyncClient` and its handle on an evaluation, against stand-ins."""

import pytest

from mlscope.client import AsyncClient, CommandRefused, EvaluationRefused, NoSuchTable, StillRunning
from schemas.analysis import Estimate, Headline
from schemas.request import AgentReason, Refused
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, ending, whole_story


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


async def test_a_table_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    refused = Refused(error="unknown", message="no table is called x", allowed="latency (A3), tail")
    assert str(CommandRefused(refused)) == "no table is called x; allowed: latency (A3), tail"
    similar = refused.model_copy(update={"message": "no table is called x; did you mean y?"})
    assert str(CommandRefused(similar)) == "no table is called x; did you mean y?"


async def test_scenarios_are_taken_as_the_command_line_takes_them(client: AsyncClient) -> None:
    evaluation = await client.run("tiny", scenarios=["poisson:rate_hz=20,queries=7", "online"])
    request = (await evaluation.status()).request
    assert request is not None
    told = [(each.name, each.parameters) for each in request.scenarios]
    assert told == [("poisson", {"rate_hz": 20, "queries": 7}), ("online", {})]


async def test_one_scenario_may_be_a_text_alone(client: AsyncClient, standing: StandIns) -> None:
    evaluation = await client.run("tiny", scenarios="batched:queries=3")
    await client.match("tiny", scenarios="batched:queries=3")
    request = (await evaluation.status()).request
    assert request is not None
    for one in (request, standing.matched[-1]):
        (choice,) = one.scenarios
        assert (choice.name, choice.parameters) == ("batched", {"queries": 3})


@pytest.mark.parametrize("text", ["poisson:rate", "poisson:=3", "poisson:rate_hz=[1"])
async def test_a_text_that_is_no_scenario_is_refused(client: AsyncClient, text: str) -> None:
    with pytest.raises(EvaluationRefused, match="NAME:KEY=VALUE") as refused:
        await client.run("tiny", scenarios=text)
    assert refused.value.field == "scenarios"


async def test_an_id_may_be_shortened_where_one_evaluation_begins_so(
    client: AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    assert (await client.status(E[:4])).evaluation == E
    assert (await client.tables(E[:5]))["latency"].name == "latency"
    assert [step.status.state async for step in client.watch(E[:6])][-1] == "analyzed"
    await client.compare(f"{E[:4]}/r0", E)
    assert (standing.compared[0].first, standing.compared[0].second) == (E, E)
    with pytest.raises(CommandRefused, match="no evaluation 0124"):
        await client.status("0124")


async def test_a_short_id_of_several_evaluations_names_them(
    client: AsyncClient, standing: StandIns
) -> None:
    longer = f"{E[:8]}00000000"
    await standing.tell(*whole_story(), *whole_story(longer))
    with pytest.raises(CommandRefused, match=f"2 evaluations begin with 01234567.*{E}"):
        await client.cancel(E[:8])
    assert standing.cancelled == []


async def test_an_evaluation_prints_as_a_few_lines(client: AsyncClient, standing: StandIns) -> None:
    await standing.tell(*whole_story())
    status = await client.status(E)
    load = Headline(
        run="r0", scenario="online", latency_ns=Estimate(value=3.86e6), p90_ns=Estimate(value=4e6)
    )
    lines = str(status.model_copy(update={"headlines": (load,)})).splitlines()
    assert lines[0].startswith(f"{E}  ")
    assert lines[1:] == ["  online, batch 1, trimmed mean 3.86 ms, p90 4 ms"]


async def test_an_ended_evaluation_prints_few_lines(
    client: AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    printed = str(await (await client.evaluation(E)).wait())
    assert printed.startswith(f"{E}  ")
    assert len(printed) < 500
    assert "Subject(" not in printed


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
