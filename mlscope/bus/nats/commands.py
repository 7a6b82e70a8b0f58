"""Commands and live messages over core NATS."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from mlscope.bus.bus import MOST_ANSWERS, Answerer
from mlscope.bus.command_queue import Bury, CommandQueue
from mlscope.bus.errors import BusError, NoAnswer, NoReply
from mlscope.bus.inboxes import is_inbox
from mlscope.bus.live import LiveMessages
from mlscope.bus.nats.connection import Connection, Msg, Subscription
from mlscope.bus.records import CommandCounts, ReceivedCommand

TRACEPARENT = "traceparent"
"""The header with the W3C trace context of what causes a message."""

_CONFIGURED_WITHIN_S = 0.2
"""How long a broker takes to read a changed configuration."""


class Commands:
    """The commands one connection sends and answers, and its live subscriptions."""

    def __init__(self, connection: Connection, bury: Bury) -> None:
        """Use `connection`; `bury` records refused commands that expect no answer."""
        self._connection = connection
        self._bury = bury
        self._queues: list[tuple[str, CommandQueue]] = []
        self._subscriptions: list[Subscription] = []
        self._live: set[LiveMessages] = set()

    async def ask(
        self, subject: str, body: bytes, timeout_s: float, traceparent: str = ""
    ) -> bytes:
        """Send `body` to `subject` and return the answer within `timeout_s`.

        `traceparent` is sent as a header, where it is not ''.

        A question that nobody gets is sent once more after a moment: while the broker reads a
        changed configuration, nothing crosses from account to account. Raises NoAnswer,
        Unreachable.
        """
        headers = {TRACEPARENT: traceparent} if traceparent else None
        ask_once = partial(
            self._connection.request, subject, body, headers=headers, timeout_s=timeout_s
        )
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    message = await ask_once()
                except NoAnswer:
                    await asyncio.sleep(_CONFIGURED_WITHIN_S)
                    message = await ask_once()
        except (NoReply, TimeoutError) as error:
            raise NoAnswer(subject) from error
        return bytes(message.data)

    async def ask_all(self, subject: str, within_s: float) -> list[bytes]:
        """Return every answer to a question on `subject` that comes in time, as `Bus.ask_all`.

        `within_s` bounds the wait, a quarter of it the pause after an answer. Raises Unreachable.
        """
        replies: asyncio.Queue[Msg | BusError] = asyncio.Queue()
        token = self._connection.expect(subject, replies.put_nowait, replies.put_nowait)
        answers: list[bytes] = []
        try:
            await self._connection.send(subject, b"", reply=token)
            async with asyncio.timeout(within_s):
                while len(answers) < MOST_ANSWERS:
                    async with asyncio.timeout(within_s / 4 if answers else within_s):
                        reply = await replies.get()
                    if isinstance(reply, BusError):
                        raise reply
                    if (reply.headers or {}).get("Status") == "503":
                        break
                    answers.append(bytes(reply.data))
        except TimeoutError:
            pass
        finally:
            self._connection.forget(token)
        return answers

    async def answer(
        self,
        subject: str,
        answerer: Answerer,
        *,
        queue: str,
        limit_pending: int | None,
        limit_running: int,
    ) -> None:
        """Answer commands on `subject` by `answerer` until the bus closes.

        `queue` is the queue group; `limit_pending` and `limit_running` are as in `Bus.answer`.
        """
        max_pending = limit_pending or self._connection.settings.max_pending_requests
        commands = CommandQueue(
            answerer, self._bury, limit_pending=max_pending, limit_running=limit_running
        )

        def received(message: Msg) -> Awaitable[None] | None:
            # The answer's way holds the reply subject alone: a message may have 8 MiB.
            reply, is_waited_for = message.reply, is_inbox(message.reply)
            traceparent = (message.headers or {}).get(TRACEPARENT, "")
            command = ReceivedCommand(
                message.subject, bytes(message.data), is_waited_for, traceparent
            )

            async def respond(answer: bytes) -> None:
                await self._connection.send(reply, answer)

            can_continue = commands.accept(command, respond if is_waited_for else None)
            return None if can_continue else commands.wait_for_room()

        subscription = await self._connection.listen(subject, received, queue=queue)
        self._subscriptions.append(subscription)
        self._queues.append((subject, commands))

    def counts_of(self, subject: str) -> CommandCounts:
        """Return the counts of the commands on a subject."""
        counts = (
            commands.counts
            for answered_subject, commands in self._queues
            if answered_subject == subject
        )
        return next(counts, CommandCounts())

    def subscribe(self, subject: str) -> LiveMessages:
        """Return the live messages on a subject."""

        async def start(messages: LiveMessages) -> Callable[[], Awaitable[None]]:
            def received(message: Msg) -> None:
                messages.accept(message.subject, bytes(message.data))

            subscription = await self._connection.listen(subject, received)
            self._live.add(messages)

            async def end() -> None:
                self._live.discard(messages)
                await self._connection.unsubscribe(subscription)

            return end

        return LiveMessages(start)

    async def close(self) -> None:
        """Accept no more commands, cancel those that run, and end the live messages."""
        for subscription in self._subscriptions:
            await self._connection.unsubscribe(subscription)
        for _, commands in self._queues:
            await commands.close()
        for messages in list(self._live):
            messages.stop()
