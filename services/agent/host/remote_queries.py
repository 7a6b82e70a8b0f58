"""Queries that are issued elsewhere and wait for the worker's answers."""

import asyncio
from collections.abc import Awaitable, Callable

from services.agent.link.messages import MOST_WAITING, IssueQuery, QueryAnswered


class RemoteQueries:
    """The queries of an order that wait for their answers; each waits once."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, int], asyncio.Future[QueryAnswered]] = {}

    async def answer_to(
        self, query: IssueQuery, send: Callable[[IssueQuery], Awaitable[None]], timeout_s: float
    ) -> QueryAnswered:
        """Hand a `query` to the worker by `send` and return its answer; it fails after `timeout_s`.

        It fails at once where too many wait, or where an equal one does.
        """
        run, number = query.key.run, query.query
        if len(self._answers) >= MOST_WAITING:
            return failed_answer(run, number, "busy")
        future: asyncio.Future[QueryAnswered] = asyncio.get_running_loop().create_future()
        if self._answers.setdefault((run, number), future) is not future:
            return failed_answer(run, number, "this query is being answered")
        try:
            await send(query)
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            return failed_answer(run, number, f"not answered in {timeout_s:g} s")
        finally:
            self._answers.pop((run, number), None)

    def take(self, answer: QueryAnswered) -> None:
        """Give the worker's `answer` to the query that waits for it, if it still does."""
        future = self._answers.get((answer.run, answer.query))
        if future is not None and not future.done():
            future.set_result(answer)

    def end_run(self, ended_run: str) -> None:
        """Fail the queries that wait for a run that has ended."""
        for (run, query), future in self._answers.items():
            if run == ended_run and not future.done():
                future.set_result(failed_answer(run, query, "the run has ended"))


def failed_answer(run: str, query: int, error: str) -> QueryAnswered:
    """Return the answer to a `query` of a `run` whose worker gave none, with an `error` text."""
    return QueryAnswered(run, query, status=1, error=error)
