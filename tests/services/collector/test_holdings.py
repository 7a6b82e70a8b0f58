"""What the log says is stored, and the database lacks, is noticed; and that it is back."""

from collections.abc import AsyncIterator
from contextlib import closing

import psycopg
import pytest

from mlscope.backup.database import note_saved
from mlscope.bus.bus import Bus
from mlscope.bus.records import Recorded
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.message import Envelope
from schemas.run import RunRecorded
from schemas.subjects import subject_of
from schemas.values.identity import run_key
from services.collector.holdings import Holdings
from services.collector.runs import run_row
from services.collector.store import Store, migrate
from services.collector.stored_batches import StoredBatches
from tests.services.collector.builders import REQUESTED_NS, a_completion, a_plan, a_trace


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    """Return a bus whose log says that e1 and e2 are stored."""
    async with connect(MemoryServer(), "collector") as bus:
        for evaluation in ("e1", "e2"):
            fact = RunRecorded(
                evaluation=evaluation, run="r0", attempt=1, spans=0, queries=0, outputs=0
            )
            await bus.publish(fact, id=evaluation)
        yield bus


def store_run(
    database_url: str, evaluation: str, *, is_settled: bool = True, batches: int = 0
) -> None:
    """Store the run of an evaluation; settled, all of its `batches` are there."""
    with closing(Store(database_url)) as store:
        ended = a_completion(evaluation=evaluation)
        row = run_row(ended, a_plan().plan, REQUESTED_NS, f"c {evaluation}")
        store.end_run(row)
        if is_settled:
            store.settle(row["run_key"], "recorded", batches)


async def test_a_database_that_lost_rows_is_noticed_until_they_are_back(
    bus: Bus, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    migrate(database_url)
    store_run(database_url, "e1")
    store_run(database_url, "e2")
    with closing(Holdings(bus, database_url)) as holdings:
        await holdings.compare()
        assert (holdings.lost, holdings.unsaved) == (frozenset(), 2)
        assert holdings.database_only == 0
        with psycopg.connect(database_url) as session:
            session.execute("UPDATE run SET purged_at = now() WHERE evaluation = 'e1'")
        await holdings.compare()
        assert (holdings.unsaved, holdings.database_only) == (2, 1)
        with psycopg.connect(database_url) as session:
            session.execute("DELETE FROM run WHERE evaluation = 'e2'")
        await holdings.compare()
        assert holdings.lost == frozenset()
        await holdings.compare()
        assert holdings.lost == {"e2"}
        assert "lost rows of 1 evaluation, those of e2 among them" in caplog.text
        with psycopg.connect(database_url) as session:
            session.execute("DELETE FROM run")
        for _ in range(2):
            await holdings.compare()
        assert holdings.lost == {"e1", "e2"}
        store_run(database_url, "e1")
        store_run(database_url, "e2")
        await holdings.compare()
        assert holdings.lost == frozenset()


async def test_rows_of_runs_under_way_are_unsaved_until_a_backup_has_them(
    bus: Bus, database_url: str
) -> None:
    migrate(database_url)
    store_run(database_url, "e2", is_settled=False)
    batch = a_trace()
    envelope = Envelope.around(batch, id="b", cause="", time_ns=0)
    batches = StoredBatches()
    batches.note([Recorded(subject_of(batch), 7, envelope, batch)])
    with closing(Holdings(bus, database_url, batches)) as holdings:
        await holdings.compare()
        assert (holdings.unsaved, holdings.database_only) == (2, 0)
        with closing(Store(database_url)) as store:
            store.note_left_up_to("TRACES", 7)
        await holdings.compare()
        assert (holdings.unsaved, holdings.database_only) == (2, 1)
        note_saved(database_url, [run_key("e2", "r0", 1)], {"TRACES": 7})
        await holdings.compare()
        assert (holdings.unsaved, holdings.database_only) == (0, 0)


async def test_the_newest_runs_are_remembered_and_no_more(
    bus: Bus, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are lost; of the older one nothing is known after the next page of the log."""
    monkeypatch.setattr("services.collector.holdings._PAGE_FACTS", 1)
    migrate(database_url)
    with closing(Holdings(bus, database_url, most_runs=1)) as holdings:
        for _ in range(2):
            await holdings.compare()
        assert holdings.lost == {"e2"}
        assert holdings._recorded.tolist() == [run_key("e2", "r0", 1)]


async def test_runs_of_every_question_are_compared(
    bus: Bus, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is asked about a few runs at a time; a missing one in any question is lost."""
    monkeypatch.setattr("services.collector.holdings._COMPARED_AT_ONCE", 1)
    migrate(database_url)
    store_run(database_url, "e2")
    with closing(Holdings(bus, database_url)) as holdings:
        for _ in range(2):
            await holdings.compare()
        assert holdings.lost == {"e1"}
        with psycopg.connect(database_url) as session:
            session.execute("DELETE FROM run")
        for _ in range(2):
            await holdings.compare()
        assert holdings.lost == {"e1", "e2"}


async def test_a_run_without_its_batches_is_lost(bus: Bus, database_url: str) -> None:
    migrate(database_url)
    store_run(database_url, "e1")
    store_run(database_url, "e2", is_settled=False)
    with closing(Holdings(bus, database_url)) as holdings:
        for _ in range(2):
            await holdings.compare()
    assert holdings.lost == {"e2"}
