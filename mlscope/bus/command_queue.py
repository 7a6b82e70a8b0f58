"""Answers commands within bounds: some run, some wait, and the rest are refused as busy."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace

from mlscope.bus.bus import LIMIT_RUNNING, Answerer
from mlscope.bus.command_letters import LETTER_BYTES, sender_of
from mlscope.bus.envelopes import refusal, refusal_reason
from mlscope.bus.errors import BusError, PayloadTooLarge
from mlscope.bus.records import CommandCounts, ReceivedCommand
from mlscope.bus.shares import Shares
from mlscope.tasks import end_tasks

_log = logging.getLogger(__name__)
MOST_BURIED_AT_ONCE = 16
"""Each letter is synced to disk, and sent again until it is: a flood of them would fill the
connection to the log."""
MOST_PENDING_BYTES = 64 << 20
"""The bodies of the commands that one queue holds: anyone who may ask can send many of 8 MiB."""
MOST_PERSON_BYTES = 2 << 20
"""Those of one person, unless a single one is larger: reading them takes a service seconds."""

Respond = Callable[[bytes], Awaitable[None]]
"""Sends the answer to the sender of the command."""

Bury = Callable[[ReceivedCommand, str], Awaitable[None]]
"""Records a command that expects no answer as a dead letter, with the reason."""


class CommandQueue:
    """Runs one answerer for each command: a bounded number at once, the others in order."""

    def __init__(
        self,
        answerer: Answerer,
        bury: Bury,
        *,
        limit_pending: int,
        limit_running: int = LIMIT_RUNNING,
    ) -> None:
        """Hold at most `limit_pending` commands, and run at most `limit_running` of them at once.

        One person has at most half of them, so that others are answered beside who sends many.
        Their bodies have `MOST_PENDING_BYTES` at most, those of one person `MOST_PERSON_BYTES`,
        unless a single one is larger.
        `answerer` answers each command; `bury` records a refused command that expects no answer.
        """
        self._answerer = answerer
        self._bury = bury
        self._limit_pending = limit_pending
        self._running = asyncio.Semaphore(limit_running)
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusing: set[asyncio.Task[None]] = set()
        self._burying = 0
        self._pending = Shares(limit_pending)
        self._bytes_of_person: Counter[str] = Counter()
        self._has_room = asyncio.Event()
        self.counts = CommandCounts()

    def accept(self, command: ReceivedCommand, respond: Respond | None) -> bool:
        """Accept a command; `respond` is None when the sender expects no answer.

        When the queue is full, a sender that expects an answer always gets a refusal. Of the other
        refused commands, 16 are buried at a time; the rest are dropped and counted as errors.
        Returns False when no more refusals may be in flight: call `wait_for_room` before the next.
        """
        self.counts.requests += 1
        size_bytes = len(command.body)
        pending_bytes = self._bytes_of_person.total()
        has_memory = pending_bytes + size_bytes <= MOST_PENDING_BYTES or not self._tasks
        person = sender_of(command)
        own_bytes = self._bytes_of_person[person]
        has_bytes = not person or not own_bytes or own_bytes + size_bytes <= MOST_PERSON_BYTES
        has_share = has_bytes and self._pending.leaves_half(person)
        if len(self._tasks) < self._limit_pending and has_memory and has_share:
            work = self._run_answerer(command, respond)
            self._start(work, self._tasks, size_bytes, person)
        elif respond is not None or len(self._refusing) < self._limit_pending:
            amount = self._limit_pending if has_memory else f"{MOST_PENDING_BYTES >> 20} MiB of"
            share = self._limit_pending // 2 if has_bytes else f"{MOST_PERSON_BYTES >> 20} MiB"
            whose = f"{amount} requests" if has_share else f"{share} of yours"
            reason = f"{whose} are waiting; try again later"
            self._note_error(f"busy:{reason}")
            # Many refusals may wait to be sent: a dead letter has no more of a body than this.
            command = replace(command, body=command.body[:LETTER_BYTES])
            answer = refusal("busy", reason, command.body)
            self._start(self._send_answer(command, respond, answer), self._refusing)
        else:
            self._note_error("busy:dropped, because too many refusals are in flight")
        return len(self._refusing) < self._limit_pending

    async def wait_for_room(self) -> None:
        """Return once at most half of the allowed refusals are in flight."""
        while 2 * len(self._refusing) > self._limit_pending:
            self._has_room.clear()
            await self._has_room.wait()

    def _start(
        self,
        work: Coroutine[None, None, None],
        tasks: set[asyncio.Task[None]],
        size_bytes: int = 0,
        person: str = "",
    ) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        self._pending.add(person)
        self._bytes_of_person[person] += size_bytes
        self.counts.open = len(self._tasks)

        def ended(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            self._pending.add(person, -1)
            self._bytes_of_person -= Counter({person: size_bytes})
            self.counts.open = len(self._tasks)
            self._has_room.set()

        task.add_done_callback(ended)

    async def close(self) -> None:
        """Cancel the running commands and wait until they end."""
        await end_tasks([*self._tasks, *self._refusing])

    def _note_error(self, reason: str) -> None:
        self.counts.errors += 1
        self.counts.last_error = reason

    async def _run_answerer(self, command: ReceivedCommand, respond: Respond | None) -> None:
        async with self._running:
            begun_ns = time.monotonic_ns()
            try:
                answer = await self._answerer(command)
                # A refusal counts as an error, `code:description`, as in NATS's own clients:
                # https://github.com/nats-io/nats.go/blob/main/micro/request.go (`request.Error`).
                if answer is not None and (reason := refusal_reason(answer)) is not None:
                    self._note_error(reason.replace(": ", ":", 1))
            except BusError as error:
                _log.warning("could not answer %s: %s", command.subject, error)
                self._note_error(str(error))
                answer = refusal("unavailable", "the broker is away; try again", command.body)
            except Exception as error:  # noqa: BLE001  one command must not end the service
                _log.exception("answering %s", command.subject)
                self._note_error(f"{type(error).__name__}: {error}")
                answer = refusal("unavailable", "the service failed; see its log", command.body)
            self.counts.processing_ns += time.monotonic_ns() - begun_ns
        if answer is not None:
            await self._send_answer(command, respond, answer)

    async def _send_answer(
        self, command: ReceivedCommand, respond: Respond | None, answer: bytes
    ) -> None:
        try:
            if respond is None and (reason := refusal_reason(answer)) is not None:
                await self._bury_if_few(command, reason)
            if respond is None:
                return
            try:
                await respond(answer)
            except PayloadTooLarge as error:
                # The sender learns why there is no answer, instead of waiting in vain.
                self._note_error(str(error))
                reason = f"the answer is too large: {error.size_bytes} bytes; ask for less"
                await respond(refusal("unavailable", reason, command.body))
        except BusError as error:
            _log.warning("the answer to %s is lost: %s", command.subject, error)

    async def _bury_if_few(self, command: ReceivedCommand, reason: str) -> None:
        if self._burying >= MOST_BURIED_AT_ONCE:
            self._note_error("unavailable:dropped, because too many letters are on their way")
            return
        self._burying += 1
        try:
            await self._bury(command, reason)
        finally:
            self._burying -= 1
