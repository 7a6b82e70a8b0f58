"""One service's bus on a memory server, with the same guarantees as over NATS, in one process."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from mlscope.bus.bus import LIMIT_RUNNING, Answerer, Delivery
from mlscope.bus.command_letters import CommandLetters
from mlscope.bus.command_queue import CommandQueue
from mlscope.bus.discovery import ServiceInstance
from mlscope.bus.envelopes import SkippingReader, encode_envelope, in_envelope, payload_name
from mlscope.bus.errors import Conflict, NotProvisioned, Unreachable
from mlscope.bus.live import LiveMessages
from mlscope.bus.records import (
    Backlog,
    CommandCounts,
    Entry,
    ReceivedCommand,
    Recorded,
    ServiceInfo,
    StatsSource,
    StreamContents,
    Traffic,
    Unreadable,
)
from mlscope.bus.streams import BATCHES, store_of, stream_of
from mlscope.testing.memory_bus.bucket import BucketState
from mlscope.testing.memory_bus.delivery import MemoryDelivery
from mlscope.testing.memory_bus.durable import DurableState
from mlscope.testing.memory_bus.intake import Intake
from mlscope.testing.memory_bus.log import Log
from mlscope.testing.memory_bus.objects import ObjectState
from mlscope.testing.memory_bus.requests import ask, ask_all
from mlscope.testing.memory_bus.server import Listener, MemoryServer
from schemas.dead import LetterBuried
from schemas.message import Fact
from schemas.subjects import subject_of


class MemoryBus:
    """The `Bus` protocol on a server in this process; see `mlscope.bus.bus.Bus` for each method."""

    def __init__(
        self,
        server: MemoryServer,
        name: str,
        *,
        max_pending_requests: int = 1000,
        patience_s: float = 60.0,
    ) -> None:
        """Connect the service `name` to `server`.

        `max_pending_requests` bounds the commands that wait for their answer; `patience_s` bounds
        the wait of a call while the server is stopped.
        """
        self.name = name
        self.traffic = Traffic()
        self._reader = SkippingReader(self.get_object, self.traffic)
        self._server = server
        self._limit_pending = max_pending_requests
        self._patience_s = patience_s
        self._is_closed = False
        self._closed = asyncio.Event()
        self._queues: list[tuple[str, CommandQueue]] = []
        self._letters = CommandLetters(self)
        self._intakes: list[Intake] = []
        self._listeners: list[Listener] = []
        self._live: set[LiveMessages] = set()

    @property
    def is_connected(self) -> bool:
        """Whether the server is there now."""
        return not (self._is_closed or self._server.is_away)

    async def publish(
        self,
        fact: Fact,
        *,
        id: str,  # noqa: A002
        cause: str = "",
        expected: tuple[str, int] | None = None,
        traceparent: str = "",
    ) -> int:
        """Record `fact` under `id` and return its sequence, as `Bus.publish`.

        `cause`, `expected` and `traceparent` are as there.
        Raises Conflict, StreamFull, Unreachable.
        """
        subject = subject_of(fact)
        envelope = in_envelope(fact, id=id, cause=cause, traceparent=traceparent)
        body = await encode_envelope(subject, envelope, self.put_object)
        await self._reachable()
        try:
            sequence = self._server.store(subject, body, id=id, expected=expected)
        except Conflict:
            assert expected is not None, "only a guarded write conflicts"
            later = await self.read(expected[0], after=expected[1])
            ours = [recorded.sequence for recorded in later if recorded.envelope.id == id]
            if not ours:
                raise
            sequence = ours[0]
        self.traffic.published += 1
        self.traffic.buried += isinstance(fact, LetterBuried)
        return sequence

    async def publish_live(self, subject: str, body: bytes) -> None:
        """Send a message that is not stored."""
        await self._reachable()
        self._server.send(subject, body)

    async def ask(
        self, subject: str, body: bytes, *, timeout_s: float = 5.0, traceparent: str = ""
    ) -> bytes:
        """Send `body` to `subject`, with a `traceparent`; return the answer within `timeout_s`.

        Raises NoAnswer, Unreachable.
        """
        if self._is_closed or self._server.is_away:
            raise Unreachable("the server is away")
        return await ask(self._server, self.name, subject, body, timeout_s, traceparent)

    async def ask_all(self, subject: str, *, within_s: float = 1.0) -> list[bytes]:
        """Return the answers of everybody on `subject` that come in time. Raises Unreachable."""
        if self._is_closed or self._server.is_away:
            raise Unreachable("the server is away")
        return await ask_all(self._server, self.name, subject, within_s)

    async def answer(
        self,
        subject: str,
        answerer: Answerer,
        *,
        queue: str | None,
        limit_pending: int | None = None,
        limit_running: int = LIMIT_RUNNING,
    ) -> None:
        """Answer commands on `subject` by `answerer` until the bus closes, as `Bus.answer`.

        `queue`, `limit_pending` and `limit_running` are as there.
        """
        commands = CommandQueue(
            answerer,
            self._letters.bury,
            limit_pending=limit_pending or self._limit_pending,
            limit_running=limit_running,
        )
        self._queues.append((subject, commands))
        intake = Intake(commands)
        self._intakes.append(intake)

        def received(subject: str, body: bytes, reply: str) -> None:
            async def respond(answer: bytes) -> None:
                self._server.send(reply, answer)

            context = self._server.traceparents.get(reply, "")
            command = ReceivedCommand(subject, body, bool(reply), context)
            intake.take(command, respond if reply else None)

        self._listeners.append(self._server.listen(subject, received, queue or ""))

    def subscribe(self, subject: str) -> LiveMessages:
        """Return the live messages on `subject`."""

        async def start(messages: LiveMessages) -> Callable[[], Awaitable[None]]:
            listener = self._server.listen(
                subject, lambda subject, body, _: messages.accept(subject, body)
            )
            self._live.add(messages)

            async def end() -> None:
                self._live.discard(messages)
                self._server.leave(listener)

            return end

        return LiveMessages(start)

    async def deliveries(
        self, durable: str, *, batch: int = 1
    ) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield deliveries of a durable, up to `batch` at a time."""
        state = self._durable(durable)
        while not self._is_closed:
            if self._server.is_away:
                await self._server.changed()
                continue
            due = state.take(batch, self._server.clock())
            candidates = [
                MemoryDelivery(self, self._server, state, message, n) for message, n in due
            ]
            decodable = [delivery for delivery in candidates if await delivery.decode()]
            self.traffic.delivered += len(decodable)
            self.traffic.redelivered += sum(delivery.tries > 1 for delivery in decodable)
            if decodable:
                yield decodable
            if not due:
                await self._server.changed(state.next_due_s())

    async def read(
        self,
        filter_subject: str,
        *,
        after: int = 0,
        at_most: int = 0,
        unreadable: list[Unreadable] | None = None,
    ) -> list[Recorded]:
        """Return facts on `filter_subject`; `after`, `at_most`, `unreadable` as in `Bus.read`."""
        await self._reachable()
        messages = self._log(filter_subject).beyond((filter_subject,), after)
        decoded = [await self._reader.decode(message, unreadable) for message in messages]
        readable = [fact for fact in decoded if fact is not None]
        return readable[:at_most] if at_most else readable

    async def follow(
        self, filter_subject: str, *, after: int = 0
    ) -> AsyncGenerator[Recorded | None, None]:
        """Yield the facts on a filter in order, without end; None once when caught up."""
        log = self._log(filter_subject)
        is_caught_up = False
        while not self._is_closed:
            messages = [] if self._server.is_away else log.beyond((filter_subject,), after)
            for message in messages:
                after = message.sequence
                if (fact := await self._reader.decode(message)) is not None:
                    yield fact
            if messages:
                continue
            if is_caught_up or self._server.is_away:
                await self._server.changed()
            else:
                is_caught_up = True
                yield None

    def unread(self, evaluation: str) -> int:
        """Return how many facts of an `evaluation` were read here and could not be decoded."""
        return self._reader.unread(evaluation)

    async def put(self, bucket: str, key: str, value: bytes, *, revision: int | None = None) -> int:
        """Set `key` in `bucket` to `value`, at `revision` if given. Raises Conflict."""
        await self._reachable()
        written = self._bucket(bucket).put(key, value, revision)
        self._server.wake()
        return written

    async def get(self, bucket: str, key: str) -> Entry | None:
        """Return a key's entry, or None if the key does not exist."""
        await self._reachable()
        return self._bucket(bucket).get(key)

    async def delete(self, bucket: str, key: str) -> None:
        """Remove a key."""
        await self._reachable()
        self._bucket(bucket).put(key, None)
        self._server.wake()

    async def watch(self, bucket: str) -> AsyncGenerator[Entry | None, None]:
        """Yield every current entry, then None once, then every change, without end."""
        state = self._bucket(bucket)
        changes: deque[Entry] = deque()
        first: list[Entry | None] = [*state.entries(), None]
        state.watchers.append(changes)
        try:
            for entry in first:
                yield entry
            while not self._is_closed:
                state.expire()
                while changes and not self._server.is_away:
                    yield changes.popleft()
                await self._server.changed(state.next_end_s())
        finally:
            state.watchers.remove(changes)

    async def changes(self, bucket: str, *, after: int) -> list[Entry]:
        """Return the keys whose newest revision is above `after`, in the order they were set."""
        await self._reachable()
        return self._bucket(bucket).changes(after)

    def _durable(self, name: str) -> DurableState:
        try:
            return self._server.durables[name]
        except KeyError as error:
            raise NotProvisioned(name) from error

    def _log(self, filter_subject: str) -> Log:
        name = stream_of(filter_subject)
        try:
            return self._server.logs[name]
        except KeyError as error:
            raise NotProvisioned(name) from error

    def _bucket(self, bucket: str) -> BucketState:
        try:
            return self._server.buckets[bucket]
        except KeyError as error:
            raise NotProvisioned(bucket) from error

    async def put_object(self, subject: str, name: str, body: bytes) -> str:
        """Store `body` as `name` for a fact on `subject`; return its sha256.

        Raises Conflict, PayloadsFull.
        """
        await self._reachable()
        return self._store(subject).put(subject, name, body)

    async def get_object(self, subject: str, name: str, sha256: str) -> bytes:
        """Return the payload `name` of a fact on `subject`, checked against `sha256`.

        Raises PayloadMismatch, NoSuchPayload.
        """
        await self._reachable()
        return self._store(subject).get(subject, name, sha256)

    async def purge(self, filter_subject: str, *, up_to: int = 0) -> None:
        """Delete the messages on a filter, all or `up_to` a sequence, with their payloads."""
        await self._reachable()
        log, objects = self._log(filter_subject), self._store(filter_subject)
        leaving = [
            message for message in log.beyond((filter_subject,), 0) if message.sequence <= up_to
        ]
        payloads = [(message.subject, payload_name(message.body)) for message in leaving]
        log.purge(filter_subject, up_to)
        if objects.store.name == BATCHES:
            objects.drop(payloads if up_to else objects.payloads_on(filter_subject))

    def _store(self, subject: str) -> ObjectState:
        name = store_of(subject)
        try:
            return self._server.stores[name]
        except KeyError as error:
            raise NotProvisioned(name) from error

    async def contents(self, stream: str, *, on: str = "") -> StreamContents:
        """Return what a stream holds, and how many messages `on` a filter."""
        await self._reachable()
        store = self._server.stores.get(stream.removeprefix("OBJ_"))
        if store is not None:
            return StreamContents(0, 0, store.size_bytes, store.store.max_bytes)
        try:
            return self._server.logs[stream].contents(on)
        except KeyError as error:
            raise NotProvisioned(stream) from error

    async def acknowledged(self, durable: str) -> int:
        """Return the sequence up to which every message of a durable is acknowledged."""
        await self._reachable()
        return self._durable(durable).acknowledged()

    async def backlog(self, durable: str) -> Backlog:
        """Return what a durable has still to do."""
        await self._reachable()
        return self._durable(durable).backlog()

    async def wait_closed(self) -> None:
        """Return once the bus is closed; its server never ends it."""
        await self._closed.wait()

    async def announce(self, info: ServiceInfo, stats: StatsSource) -> ServiceInstance:
        """Answer service discovery until the bus closes; return the instance."""

        def counted(subject: str) -> CommandCounts:
            own_counts = (queue.counts for answered, queue in self._queues if answered == subject)
            return next(own_counts, CommandCounts())

        instance = ServiceInstance(info, stats, counted)

        def received(subject: str, _: bytes, reply: str) -> None:
            if reply:
                answer = json.dumps(instance.answer_to(subject), default=str)
                self._server.send(reply, answer.encode())

        self._listeners += [
            self._server.listen(discovery_subject, received)
            for discovery_subject in instance.subjects()
        ]
        return instance

    async def close(self) -> None:
        """Close: iterators end, later calls raise Unreachable."""
        self._is_closed = True
        self._closed.set()
        for listener in self._listeners:
            self._server.leave(listener)
        for intake in self._intakes:
            intake.close()
        for _, commands in self._queues:
            await commands.close()
        for messages in list(self._live):
            messages.stop()
        self._server.wake()

    async def _reachable(self) -> None:
        end_s = self._server.clock() + self._patience_s
        while self._server.is_away and not self._is_closed:
            if self._server.clock() >= end_s:
                raise Unreachable("the server is away")
            await self._server.changed(end_s)
        if self._is_closed:
            raise Unreachable("the bus is closed")
