"""Publishes batches concurrently, within a bounded window, and retries until they are stored."""

import asyncio

from mlscope.bus.bus import Bus
from mlscope.bus.errors import StreamFull, Unreachable
from mlscope.tasks import end_tasks
from schemas.message import Fact

_LEAST_PAUSE_S = 0.05
_MOST_PAUSE_S = 2.0


class PublishWindow:
    """Publishes facts with a bounded number in flight.

    A full stream or a lost server delays facts; they are retried. The facts may be stored in any
    order, so the window is for batches only, which carry their own sequence.
    """

    def __init__(self, bus: Bus, *, size: int = 64) -> None:
        """Publish on `bus` with at most `size` facts in flight."""
        self._bus = bus
        self._size = size
        self._free = asyncio.Semaphore(size)
        self._failure: BaseException | None = None
        #: the last error that delayed a fact: a full stream, or a lost server
        self.held_back: StreamFull | Unreachable | None = None
        self._sending: set[asyncio.Task[int]] = set()

    @property
    def pending(self) -> int:
        """The number of facts in flight."""
        return len(self._sending)

    async def put(
        self,
        fact: Fact,
        *,
        id: str,  # noqa: A002
        cause: str = "",
        traceparent: str = "",
    ) -> asyncio.Task[int]:
        """Start publishing `fact` once there is room; return the task whose result is its sequence.

        `id`, `cause` and `traceparent` are as in `Bus.publish`. On StreamFull and Unreachable the
        fact is retried under the same id until it is stored or the window is aborted; any other
        error of an earlier fact is raised here.
        """
        await self._free.acquire()
        try:
            self._raise_failure()
        except BaseException:
            self._free.release()
            raise
        sending = self._publish(fact, id, cause, traceparent)
        task = asyncio.get_running_loop().create_task(sending)
        self._sending.add(task)

        def finished(task: asyncio.Task[int]) -> None:
            self._sending.discard(task)
            self._free.release()
            if not task.cancelled() and task.exception() is not None:
                self._failure = self._failure or task.exception()

        task.add_done_callback(finished)
        return task

    async def drain(self) -> None:
        """Return once every fact is stored. Raises the error of a fact that failed."""
        while self._sending:
            await asyncio.wait(self._sending)
        self._raise_failure()

    async def abort(self) -> int:
        """Cancel the facts in flight and return their number."""
        cancelled = list(self._sending)
        await end_tasks(cancelled)
        return len(cancelled)

    async def _publish(self, fact: Fact, fact_id: str, cause: str, traceparent: str) -> int:
        pause_s = _LEAST_PAUSE_S
        while True:
            try:
                return await self._bus.publish(
                    fact, id=fact_id, cause=cause, traceparent=traceparent
                )
            except (StreamFull, Unreachable) as error:
                self.held_back = error
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _MOST_PAUSE_S)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
