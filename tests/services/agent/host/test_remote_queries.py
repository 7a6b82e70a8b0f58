"""Remote queries that wait for their answers."""

import asyncio

import pytest

from services.agent.host.remote_queries import RemoteQueries
from services.agent.link.messages import MOST_WAITING, AttemptKey, IssueQuery, QueryAnswered


def a_query(number: int = 7, run: str = "r0") -> IssueQuery:
    """Return a query of a run."""
    return IssueQuery(AttemptKey("e1", run, 1), number, (0,), 0)


class SilentWorker:
    """Takes queries and answers none."""

    def __init__(self) -> None:
        self.queries: asyncio.Queue[IssueQuery] = asyncio.Queue()

    async def send(self, query: IssueQuery) -> None:
        """Take a query."""
        self.queries.put_nowait(query)


@pytest.fixture
def worker() -> SilentWorker:
    """Return a worker that answers nothing by itself."""
    return SilentWorker()


async def test_a_query_gets_its_own_answer(worker: SilentWorker) -> None:
    queries = RemoteQueries()
    waiting = asyncio.create_task(queries.answer_to(a_query(7), worker.send, 60.0))
    await worker.queries.get()
    queries.take(QueryAnswered("r0", 8, status=0))
    queries.take(QueryAnswered("r0", 7, status=0, service_ns=5))
    assert await waiting == QueryAnswered("r0", 7, status=0, service_ns=5)


async def test_the_end_of_a_run_fails_its_queries_alone(worker: SilentWorker) -> None:
    queries = RemoteQueries()
    runs = ("r0", "r1")
    waiting = [
        asyncio.create_task(queries.answer_to(a_query(run=run), worker.send, 60.0)) for run in runs
    ]
    for _ in waiting:
        await worker.queries.get()
    queries.end_run("r0")
    assert (await waiting[0]).error == "the run has ended"
    queries.take(QueryAnswered("r1", 7, status=0))
    assert (await waiting[1]).error == ""


async def test_an_equal_query_is_refused_while_one_waits(worker: SilentWorker) -> None:
    queries = RemoteQueries()
    waiting = asyncio.create_task(queries.answer_to(a_query(), worker.send, 60.0))
    await worker.queries.get()
    second = await queries.answer_to(a_query(), worker.send, 60.0)
    assert (second.status, second.error) == (1, "this query is being answered")
    queries.take(QueryAnswered("r0", 7, status=0))
    assert (await waiting).status == 0


async def test_too_many_queries_are_refused_as_busy(worker: SilentWorker) -> None:
    queries = RemoteQueries()
    waiting = [
        asyncio.create_task(queries.answer_to(a_query(number), worker.send, 60.0))
        for number in range(MOST_WAITING)
    ]
    for _ in waiting:
        await worker.queries.get()
    assert (await queries.answer_to(a_query(MOST_WAITING), worker.send, 60.0)).error == "busy"
    queries.end_run("r0")
    await asyncio.gather(*waiting)


async def test_a_query_fails_in_time_and_may_be_asked_again(worker: SilentWorker) -> None:
    queries = RemoteQueries()
    for _ in range(2):
        late = await queries.answer_to(a_query(), worker.send, 0.001)
        assert late.error == "not answered in 0.001 s"
