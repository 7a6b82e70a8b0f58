"""What the gateway asks: the scheduler's word first, the log's while there is no scheduler."""

import pytest

from mlscope.bus.bus import Bus
from mlscope.client.errors import CommandRefused, NotAnswering
from schemas.request import ListEvaluations
from services.gateway.bus_requests import agents, evaluations, some_tables_of, status_of, tables_of
from tests.services.scheduler.samples import an_agent
from tests.stand_ins import StandIns
from tests.stories import E, beginning, whole_story


@pytest.mark.parametrize("page_facts", [1, 1000])
async def test_the_log_tells_the_same_as_the_scheduler(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, page_facts: int
) -> None:
    monkeypatch.setattr("services.gateway.bus_requests._PAGE_FACTS", page_facts)
    standing = StandIns(bus)
    await standing.tell(*whole_story())
    by_log = await status_of(bus, E)
    await standing.open()
    assert by_log == await status_of(bus, E)
    assert by_log.state == "analyzed"


async def test_an_evaluation_nobody_knows_is_unknown_with_a_way_out(bus: Bus) -> None:
    await StandIns(bus).tell(*beginning("another"))
    with pytest.raises(CommandRefused, match="GET /api/evaluations") as refused:
        await status_of(bus, E)
    assert refused.value.refused.error == "unknown"


async def test_without_services_nothing_else_is_answered(bus: Bus) -> None:
    with pytest.raises(NotAnswering):
        await evaluations(bus, ListEvaluations())
    with pytest.raises(NotAnswering):
        await tables_of(bus, E)


async def test_a_page_takes_the_first_rows_and_a_file_all(bus: Bus, standing: StandIns) -> None:
    standing.most_rows = 1
    assert [len(table.rows) for table in (await some_tables_of(bus, E, "latency")).tables] == [1]
    assert [len(table.rows) for table in (await tables_of(bus, E)).tables] == [2]


async def test_agents_are_read_again_only_when_they_changed(bus: Bus, standing: StandIns) -> None:
    standing.agents = (an_agent("a1"),)
    first = await agents(bus)
    assert [status.announcement.agent for status in first] == ["a1"]
    assert await agents(bus) is first
    standing.agents = (an_agent("a1", state="lost"),)
    assert [status.state for status in await agents(bus)] == ["lost"]
