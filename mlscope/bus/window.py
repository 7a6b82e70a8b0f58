"""Publishing batches fast: several at once, never more than the window, none given up silently."""

import asyncio

from mlscope.bus.bus import Bus
from mlscope.bus.errors import StreamFull, Unreachable
from schemas.message import Fact

_LEAST_PAUSE_S = 0.05
_MOST_PAUSE_S = 2.0


class PublishWindow:
    """A bounded number of facts on their way; a full stream or lost server holds them back.

    Order among them is not kept, so it is for batches only, which carry their own sequence.
    """

    def __init__(self, bus: Bus, *, size: int = 64) -> None:
        """Have at most `size` facts on their way."""
        self._bus = bus
        self._size = size
        self._free = asyncio.Semaphore(size)
        self._failure: BaseException | None = None
        #: what last held a fact back: a full stream, or a lost server
        self.held_back: StreamFull | Unreachable | None = None
        self._sending: set[asyncio.Task[int]] = set()

    @property
    def pending(self) -> int:
        """How many facts are on their way."""
        return len(self._sending)

    async def put(
        self,
        fact: Fact,
        *,
        id: str,  # noqa: A002
        cause: str = "",
        traceparent: str = "",
    ) -> asyncio.Task[int]:
        """Start publishing a fact once there is room and return the task of its sequence.

        Raises what an earlier fact failed of, other than StreamFull and Unreachable: these are
        tried again under the same id until the fact is stored or the window aborted.
        """
        await self._free.acquire()
        try:
            self._raise_failure()
        except BaseException:
            self._free.release()
            raise
        sending = self._send(fact, id, cause, traceparent)
        task = asyncio.get_running_loop().create_task(sending)
        self._sending.add(task)
        task.add_done_callback(self._done)
        return task

    async def drain(self) -> None:
        """Return once every fact is stored. Raises what one of them failed of."""
        while self._sending:
            await asyncio.wait(self._sending)
        self._raise_failure()

    async def abort(self) -> int:
        """Give up on what is on its way and return how many facts that were."""
        given_up = list(self._sending)
        for task in given_up:
            task.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
        return len(given_up)

    async def _send(self, fact: Fact, fact_id: str, cause: str, traceparent: str) -> int:
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

    def _done(self, task: asyncio.Task[int]) -> None:
        self._sending.discard(task)
        self._free.release()
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
