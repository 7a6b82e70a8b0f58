"""Commands and live messages over core NATS."""

from collections.abc import Awaitable, Callable

from mlscope.bus.answering import Answering, Bury, Counts, Respond
from mlscope.bus.bus import Answerer, Asked
from mlscope.bus.errors import NoAnswer, Silence
from mlscope.bus.hearing import Hearing
from mlscope.bus.nats.connection import Connection, Msg, Subscription
from mlscope.bus.permissions import is_inbox


class Commands:
    """What one connection asks, answers and hears."""

    def __init__(self, connection: Connection, bury: Bury) -> None:
        """`bury` takes refused commands nobody waits for."""
        self._connection = connection
        self._bury = bury
        self._answering: list[tuple[str, Answering]] = []
        self._subscriptions: list[Subscription] = []
        self._hearings: set[Hearing] = set()

    async def ask(self, subject: str, body: bytes, timeout_s: float) -> bytes:
        """Send a command and return its answer. Raises NoAnswer, Unreachable."""
        try:
            message = await self._connection.request(subject, body, timeout_s=timeout_s)
        except Silence as error:
            raise NoAnswer(subject) from error
        return bytes(message.data)

    async def answer(
        self,
        subject: str,
        answerer: Answerer,
        *,
        queue: str,
        limit_pending: int | None,
        limit_running: int,
    ) -> None:
        """Answer commands on a subject until the bus closes."""
        most = limit_pending or self._connection.settings.max_pending_requests
        answering = Answering(answerer, self._bury, limit_pending=most, limit_running=limit_running)

        def received(message: Msg) -> Awaitable[None] | None:
            is_waited_for = is_inbox(message.reply)
            asked = Asked(message.subject, bytes(message.data), is_waited_for)
            respond = self._respond(message.reply) if is_waited_for else None
            return None if answering.take(asked, respond) else answering.room()

        subscription = await self._connection.listen(subject, received, queue=queue)
        self._subscriptions.append(subscription)
        self._answering.append((subject, answering))

    def _respond(self, reply: str) -> Respond:
        async def respond(answer: bytes) -> None:
            await self._connection.send(reply, answer)

        return respond

    def counted(self, subject: str) -> Counts:
        """Return what became of the commands on a subject."""
        counts = (answering.counts for each, answering in self._answering if each == subject)
        return next(counts, Counts())

    def hear(self, subject: str) -> Hearing:
        """Return live messages on a subject."""
        return Hearing(lambda hearing: self._subscribe(subject, hearing))

    async def _subscribe(self, subject: str, hearing: Hearing) -> Callable[[], Awaitable[None]]:
        def received(message: Msg) -> None:
            hearing.take(message.subject, bytes(message.data))

        subscription = await self._connection.listen(subject, received)
        self._hearings.add(hearing)

        async def end() -> None:
            self._hearings.discard(hearing)
            await self._connection.unsubscribe(subscription)

        return end

    async def close(self) -> None:
        """Take no more commands, stop those at work, end every hearing."""
        for subscription in self._subscriptions:
            await self._connection.unsubscribe(subscription)
        for _, answering in self._answering:
            await answering.close()
        for hearing in list(self._hearings):
            hearing.stop()
