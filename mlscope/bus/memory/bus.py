"""One service's bus on a memory server: the same promises as over NATS, for one process."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from mlscope.bus.answering import Answering, Counts, Respond
from mlscope.bus.bus import (
    LIMIT_RUNNING,
    Answerer,
    Asked,
    Delivery,
    Entry,
    Recorded,
    ServiceFacts,
    StatsSource,
)
from mlscope.bus.discovery import Announced
from mlscope.bus.errors import Conflict, NoAnswer, NotProvisioned, Unreachable
from mlscope.bus.hearing import Hearing
from mlscope.bus.letters import dead_letter, enveloped, payload_of, readable, sealed
from mlscope.bus.memory.bucket import BucketState
from mlscope.bus.memory.delivery import MemoryDelivery
from mlscope.bus.memory.intake import Intake
from mlscope.bus.memory.log import Kept, Log
from mlscope.bus.memory.objects import ObjectState
from mlscope.bus.memory.server import Listener, MemoryServer
from mlscope.bus.streams import BATCHES, store_of, stream_of
from schemas.message import Fact
from schemas.subjects import subject_of


class MemoryBus:
    """What services may do with messages, done by a server in this process."""

    def __init__(
        self,
        server: MemoryServer,
        name: str,
        *,
        max_pending_requests: int = 1000,
        patience_s: float = 60.0,
    ) -> None:
        """Wait at most `patience_s` for a server that is away."""
        self.name = name
        self._server = server
        self._limit_pending = max_pending_requests
        self._patience_s = patience_s
        self._is_closed = False
        self._answering: list[tuple[str, Answering]] = []
        self._intakes: list[Intake] = []
        self._listeners: list[Listener] = []
        self._hearings: set[Hearing] = set()

    async def publish(
        self,
        fact: Fact,
        *,
        id: str,  # noqa: A002
        cause: str = "",
        expected: tuple[str, int] | None = None,
        traceparent: str = "",
    ) -> int:
        """Record a fact and return its sequence. Raises Conflict, StreamFull, Unreachable."""
        subject = subject_of(fact)
        envelope = enveloped(fact, id=id, cause=cause, traceparent=traceparent)
        body = await sealed(subject, envelope, self.put_object)
        await self._reachable()
        try:
            return self._server.store(subject, body, id=id, expected=expected)
        except Conflict:
            assert expected is not None, "only a guarded write conflicts"
            later = await self.read(expected[0], after=expected[1])
            ours = [recorded.sequence for recorded in later if recorded.envelope.id == id]
            if not ours:
                raise
            return ours[0]

    async def publish_live(self, subject: str, body: bytes) -> None:
        """Send a message nobody keeps."""
        await self._reachable()
        self._server.send(subject, body)

    async def ask(self, subject: str, body: bytes, *, timeout_s: float = 5.0) -> bytes:
        """Send a command and return its answer. Raises NoAnswer, Unreachable."""
        if self._is_closed or self._server.is_away:
            raise Unreachable("the server is away")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        reply = self._server.new_inbox(self.name)

        def replied(_: str, body: bytes, __: str) -> None:
            if not answer.done():
                answer.set_result(body)

        listener = self._server.listen(reply, replied)
        try:
            if not self._server.send(subject, body, reply):
                raise NoAnswer(subject)
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise NoAnswer(subject) from error
        finally:
            self._server.leave(listener)

    async def answer(
        self,
        subject: str,
        answerer: Answerer,
        *,
        queue: str | None,
        limit_pending: int | None = None,
        limit_running: int = LIMIT_RUNNING,
    ) -> None:
        """Answer commands on `subject` until the bus closes."""
        answering = Answering(
            answerer,
            self._bury_command,
            limit_pending=limit_pending or self._limit_pending,
            limit_running=limit_running,
        )
        self._answering.append((subject, answering))
        intake = Intake(answering)
        self._intakes.append(intake)

        def received(subject: str, body: bytes, reply: str) -> None:
            intake.take(Asked(subject, body, bool(reply)), self._respond(reply))

        self._listeners.append(self._server.listen(subject, received, queue or ""))

    def _respond(self, reply: str) -> Respond | None:
        async def respond(answer: bytes) -> None:
            self._server.send(reply, answer)

        return respond if reply else None

    def hear(self, subject: str) -> Hearing:
        """Yield (subject, body) of live messages."""
        return Hearing(lambda hearing: self._subscribe(subject, hearing))

    async def _subscribe(self, subject: str, hearing: Hearing) -> Callable[[], Awaitable[None]]:
        listener = self._server.listen(
            subject, lambda subject, body, _: hearing.take(subject, body)
        )
        self._hearings.add(hearing)

        async def end() -> None:
            self._hearings.discard(hearing)
            self._server.leave(listener)

        return end

    async def deliveries(
        self, durable: str, *, batch: int = 1
    ) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield deliveries of a durable, up to `batch` at a time."""
        try:
            state = self._server.durables[durable]
        except KeyError as error:
            raise NotProvisioned(durable) from error
        while not self._is_closed:
            if self._server.is_away:
                await self._server.changed()
                continue
            taken = state.take(batch, self._server.clock())
            found = [MemoryDelivery(self, self._server, state, kept, n) for kept, n in taken]
            opened_ones = [each for each in found if await each.opens()]
            if opened_ones:
                yield opened_ones
            if not taken:
                await self._server.changed(state.next_due_s())

    async def read(self, filter_subject: str, *, after: int = 0) -> list[Recorded]:
        """Return every fact on a filter beyond sequence `after`, in order."""
        await self._reachable()
        log = self._log(filter_subject)
        found = log.beyond((filter_subject,), after)
        decoded = [await self._readable(kept) for kept in found]
        return [fact for fact in decoded if fact is not None]

    async def _readable(self, kept: Kept) -> Recorded | None:
        return await readable(kept.subject, kept.sequence, kept.body, self.get_object)

    async def follow(
        self, filter_subject: str, *, after: int = 0
    ) -> AsyncGenerator[Recorded | None, None]:
        """Yield every fact on a filter in order, None once when caught up, then those to come."""
        log = self._log(filter_subject)
        is_caught_up = False
        while not self._is_closed:
            found = [] if self._server.is_away else log.beyond((filter_subject,), after)
            for kept in found:
                after = kept.sequence
                if (fact := await self._readable(kept)) is not None:
                    yield fact
            if found:
                continue
            if is_caught_up or self._server.is_away:
                await self._server.changed()
            else:
                is_caught_up = True
                yield None

    async def put(self, bucket: str, key: str, value: bytes, *, revision: int | None = None) -> int:
        """Set a key and return its revision. Raises Conflict."""
        await self._reachable()
        written = self._bucket(bucket).put(key, value, revision)
        self._server.wake()
        return written

    async def get(self, bucket: str, key: str) -> Entry | None:
        """Return a key's entry, or None."""
        await self._reachable()
        return self._bucket(bucket).get(key)

    async def delete(self, bucket: str, key: str) -> None:
        """Remove a key."""
        await self._reachable()
        self._bucket(bucket).put(key, None)
        self._server.wake()

    async def watch(self, bucket: str) -> AsyncGenerator[Entry | None, None]:
        """Yield every key as it is now, then None once, then every change."""
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
        """Return the keys whose newest revision is beyond `after`, in the order they were set."""
        await self._reachable()
        return self._bucket(bucket).changes(after)

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
        """Store a large payload and return its sha256. Raises Conflict, PayloadsFull."""
        await self._reachable()
        return self._store(subject).put(subject, name, body)

    async def get_object(self, subject: str, name: str, sha256: str) -> bytes:
        """Return a large payload. Raises PayloadMismatch, NoSuchPayload."""
        await self._reachable()
        return self._store(subject).get(name, sha256)

    async def purge(self, filter_subject: str, *, up_to: int = 0) -> None:
        """Drop a stream's messages on a filter, all or up to a sequence, with their payloads."""
        await self._reachable()
        log, objects = self._log(filter_subject), self._store(filter_subject)
        leaving = [kept for kept in log.beyond((filter_subject,), 0) if kept.sequence <= up_to]
        names = {payload_of(kept.body) for kept in leaving}
        log.purge(filter_subject, up_to)
        if objects.store.name == BATCHES:
            objects.drop(names if up_to else objects.held(filter_subject))

    def _store(self, subject: str) -> ObjectState:
        name = store_of(subject)
        try:
            return self._server.stores[name]
        except KeyError as error:
            raise NotProvisioned(name) from error

    async def acknowledged(self, durable: str) -> int:
        """Return the sequence up to which a durable has acknowledged every message."""
        await self._reachable()
        return self._server.durables[durable].acknowledged()

    async def announce(self, facts: ServiceFacts, stats: StatsSource) -> None:
        """Answer discovery for this service until the bus closes."""
        announced = Announced(facts, stats, self._counted)

        def received(subject: str, _: bytes, reply: str) -> None:
            if reply:
                told = json.dumps(announced.told(subject), default=str)
                self._server.send(reply, told.encode())

        self._listeners += [self._server.listen(each, received) for each in announced.subjects()]

    def _counted(self, subject: str) -> Counts:
        counts = (answering.counts for each, answering in self._answering if each == subject)
        return next(counts, Counts())

    async def close(self) -> None:
        """Stop: iterators end, later calls raise Unreachable."""
        self._is_closed = True
        for listener in self._listeners:
            self._server.leave(listener)
        for intake in self._intakes:
            intake.close()
        for _, answering in self._answering:
            await answering.close()
        for hearing in list(self._hearings):
            hearing.stop()
        self._server.wake()

    async def _reachable(self) -> None:
        end_s = self._server.clock() + self._patience_s
        while self._server.is_away and not self._is_closed:
            if self._server.clock() >= end_s:
                raise Unreachable("the server is away")
            await self._server.changed(end_s)
        if self._is_closed:
            raise Unreachable("the bus is closed")

    async def _bury_command(self, asked: Asked, reason: str) -> None:
        letter, letter_id = dead_letter(self.name, reason, subject=asked.subject, body=asked.body)
        await self.publish(letter, id=letter_id)
