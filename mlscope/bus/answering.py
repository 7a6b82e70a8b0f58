"""Answering commands within bounds: so many at work, so many waiting, the rest refused as busy."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

from mlscope.bus.bus import LIMIT_RUNNING, Answerer, Asked
from mlscope.bus.errors import BusError, PayloadTooLarge
from mlscope.bus.letters import refusal, refused_reason

_log = logging.getLogger(__name__)

Respond = Callable[[bytes], Awaitable[None]]
"""Sends an answer to whoever asked."""

Bury = Callable[[Asked, str], Awaitable[None]]
"""Puts a command nobody waits for into the dead letters, with the reason."""


@dataclass(slots=True)
class Counts:
    """What became of the commands on one subject since the service started."""

    requests: int = 0
    errors: int = 0
    last_error: str = ""
    processing_ns: int = 0


class Answering:
    """Runs one answerer for every command that comes, some at once, the others in order."""

    def __init__(
        self,
        answerer: Answerer,
        bury: Bury,
        *,
        limit_pending: int,
        limit_running: int = LIMIT_RUNNING,
    ) -> None:
        """Keep at most `limit_pending` commands, of which `limit_running` are at work."""
        self._answerer = answerer
        self._bury = bury
        self._limit_pending = limit_pending
        self._running = asyncio.Semaphore(limit_running)
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusing: set[asyncio.Task[None]] = set()
        self._has_room = asyncio.Event()
        self.counts = Counts()

    def take(self, asked: Asked, respond: Respond | None) -> bool:
        """Accept a command; `respond` is None when nobody waits for the answer.

        Who waits is always told. Of the others so many refusals are buried at a time, the rest
        dropped and counted as errors. False says to wait for `room` before the next: as many
        refusals are on their way as there may be.
        """
        self.counts.requests += 1
        if len(self._tasks) < self._limit_pending:
            self._start(self._work(asked, respond), self._tasks)
        elif respond is not None or len(self._refusing) < self._limit_pending:
            self._start(self._refuse(asked, respond), self._refusing)
        else:
            self._note_error("busy:dropped, for too many are refused already")
        return len(self._refusing) < self._limit_pending

    async def room(self) -> None:
        """Return once half of the refusals that may be on their way are through."""
        while 2 * len(self._refusing) > self._limit_pending:
            self._has_room.clear()
            await self._has_room.wait()

    def _start(self, work: Coroutine[None, None, None], tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            self._has_room.set()

        task.add_done_callback(ended)

    async def close(self) -> None:
        """Stop what is at work and wait for its end."""
        stopping = [*self._tasks, *self._refusing]
        for task in stopping:
            task.cancel()
        await asyncio.gather(*stopping, return_exceptions=True)

    def _note_error(self, reason: str) -> None:
        self.counts.errors += 1
        self.counts.last_error = reason

    def _note_refusal(self, answer: bytes | None) -> None:
        """Count an answer that refuses as an error, `code:description`, as NATS's own clients do.

        See `request.Error` of https://github.com/nats-io/nats.go/blob/main/micro/request.go.
        """
        reason = None if answer is None else refused_reason(answer)
        if reason is not None:
            self._note_error(reason.replace(": ", ":", 1))

    async def _refuse(self, asked: Asked, respond: Respond | None) -> None:
        reason = f"{self._limit_pending} requests are waiting; ask again later"
        self._note_error(f"busy:{reason}")
        await self._tell(asked, respond, refusal("busy", reason, asked.body))

    async def _work(self, asked: Asked, respond: Respond | None) -> None:
        async with self._running:
            begun_ns = time.monotonic_ns()
            try:
                answer = await self._answerer(asked)
                self._note_refusal(answer)
            except Exception as error:  # noqa: BLE001  one command must not end the service
                _log.exception("answering %s", asked.subject)
                self._note_error(f"{type(error).__name__}: {error}")
                answer = refusal("unavailable", "the service failed; see its log", asked.body)
            self.counts.processing_ns += time.monotonic_ns() - begun_ns
        if answer is not None:
            await self._tell(asked, respond, answer)

    async def _respond(self, asked: Asked, respond: Respond, answer: bytes) -> None:
        """Answer, or say that the answer is larger than the server takes: silence tells nothing."""
        try:
            await respond(answer)
        except PayloadTooLarge as error:
            self._note_error(str(error))
            reason = f"the answer is too large: {error.size_bytes} bytes; ask for less"
            await respond(refusal("unavailable", reason, asked.body))

    async def _tell(self, asked: Asked, respond: Respond | None, answer: bytes) -> None:
        try:
            if respond is not None:
                await self._respond(asked, respond, answer)
            elif (reason := refused_reason(answer)) is not None:
                await self._bury(asked, reason)
        except BusError:
            _log.warning("the answer to %s is lost", asked.subject, exc_info=True)
