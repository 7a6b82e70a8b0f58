"""The bus over NATS: one connection, and behind each call the part that does it."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

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
from mlscope.bus.errors import BusError, Conflict, NotProvisioned
from mlscope.bus.hearing import Hearing
from mlscope.bus.letters import dead_letter, enveloped, payload_of, readable, sealed
from mlscope.bus.nats.buckets import Buckets
from mlscope.bus.nats.commands import Commands
from mlscope.bus.nats.connection import Connection, Msg
from mlscope.bus.nats.deliveries import Place, Puller
from mlscope.bus.nats.log import EXPECTED, EXPECTED_ON, MESSAGE_ID, Stored, read_on, store, tail
from mlscope.bus.nats.objects import Objects
from mlscope.bus.permissions import is_inbox
from mlscope.bus.streams import durable_named, stream_of
from schemas.message import Fact
from schemas.subjects import subject_of

_log = logging.getLogger(__name__)


class NatsBus:
    """What services may do with messages, done by a NATS server."""

    def __init__(self, connection: Connection) -> None:
        """Use an open connection, and close it with the bus."""
        self.name = connection.name
        self._connection = connection
        self._buckets = Buckets(connection)
        self._objects = Objects(connection)
        self._commands = Commands(connection, self._bury_command)

    async def publish(
        self,
        fact: Fact,
        *,
        id: str,  # noqa: A002
        cause: str = "",
        expected: tuple[str, int] | None = None,
        traceparent: str = "",
    ) -> int:
        """Record a fact durably and return its sequence. Raises Conflict, StreamFull, Unreachable.

        After a Conflict the log is read once more: our own id there means that an earlier try
        was stored and only its acknowledgement lost.
        """
        headers = {MESSAGE_ID: id}
        if expected is not None:
            headers |= {EXPECTED_ON: expected[0], EXPECTED: str(expected[1])}
        subject = subject_of(fact)
        envelope = enveloped(fact, id=id, cause=cause, traceparent=traceparent)
        body = await sealed(subject, envelope, self._objects.put)
        try:
            return await store(self._connection, subject, body, headers=headers)
        except Conflict:
            assert expected is not None, "only a guarded write conflicts"
            later = await self.read(expected[0], after=expected[1])
            ours = [recorded.sequence for recorded in later if recorded.envelope.id == id]
            if not ours:
                raise
            return ours[0]

    async def publish_live(self, subject: str, body: bytes) -> None:
        """Send a message nobody keeps."""
        await self._connection.send(subject, body)

    async def ask(self, subject: str, body: bytes, *, timeout_s: float = 5.0) -> bytes:
        """Send a command and return its answer. Raises NoAnswer, Unreachable."""
        return await self._commands.ask(subject, body, timeout_s)

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
        await self._commands.answer(
            subject,
            answerer,
            queue=queue or "",
            limit_pending=limit_pending,
            limit_running=limit_running,
        )

    def hear(self, subject: str) -> Hearing:
        """Yield (subject, body) of live messages."""
        return self._commands.hear(subject)

    def deliveries(
        self, durable: str, *, batch: int = 1
    ) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield deliveries of a durable, up to `batch` at a time."""
        try:
            bound = durable_named(durable)
        except KeyError as error:
            raise NotProvisioned(durable) from error
        puller = Puller(self._connection, bound, self._objects.get, self._bury_delivered)
        return puller.deliveries(batch)

    async def read(self, filter_subject: str, *, after: int = 0) -> list[Recorded]:
        """Return every fact on a filter beyond sequence `after`, in order."""
        facts: list[Recorded] = []
        stream = stream_of(filter_subject)
        more = 1
        while more:
            found, more = await read_on(self._connection, stream, filter_subject, after)
            decoded = [await self._readable(stored) for stored in found]
            facts += [fact for fact in decoded if fact is not None]
            after = found[-1].sequence if found else after
            more = more if found else 0
        return facts

    async def follow(
        self, filter_subject: str, *, after: int = 0
    ) -> AsyncGenerator[Recorded | None, None]:
        """Yield every fact on a filter in order, None once when caught up, then those to come."""
        following = tail(self._connection, stream_of(filter_subject), filter_subject, after)
        async with aclosing(following) as every:
            async for stored in every:
                if stored is None:
                    yield None
                elif (fact := await self._readable(stored)) is not None:
                    yield fact

    async def _readable(self, stored: Stored) -> Recorded | None:
        fetch = self._objects.get
        return await readable(stored.subject, stored.sequence, stored.body, fetch)

    async def put(self, bucket: str, key: str, value: bytes, *, revision: int | None = None) -> int:
        """Set a key and return its revision. Raises Conflict."""
        return await self._buckets.put(bucket, key, value, revision)

    async def get(self, bucket: str, key: str) -> Entry | None:
        """Return a key's entry, or None."""
        return await self._buckets.get(bucket, key)

    async def delete(self, bucket: str, key: str) -> None:
        """Remove a key."""
        await self._buckets.delete(bucket, key)

    def watch(self, bucket: str) -> AsyncGenerator[Entry | None, None]:
        """Yield every key as it is now, then None once, then every change."""
        return self._buckets.watch(bucket)

    async def changes(self, bucket: str, *, after: int) -> list[Entry]:
        """Return the keys whose newest revision is beyond `after`, in the order they were set."""
        return await self._buckets.changes(bucket, after)

    async def put_object(self, subject: str, name: str, body: bytes) -> str:
        """Store a large payload and return its sha256. Raises Conflict, PayloadsFull."""
        return await self._objects.put(subject, name, body)

    async def get_object(self, subject: str, name: str, sha256: str) -> bytes:
        """Return a large payload. Raises PayloadMismatch, NoSuchPayload."""
        return await self._objects.get(subject, name, sha256)

    async def purge(self, filter_subject: str, *, up_to: int = 0) -> None:
        """Drop a stream's messages on a filter, all or up to a sequence, with their payloads.

        Messages go first: what is left when this ends in the middle, a later purge finds.
        """
        held = await self._objects.held(filter_subject)
        names = await self._referred(filter_subject, up_to) if held and up_to else held.keys()
        api = f"$JS.API.STREAM.PURGE.{stream_of(filter_subject)}"
        bound = {"seq": up_to + 1} if up_to else {}
        await self._connection.call(api, {"filter": filter_subject, **bound})
        await self._objects.drop(names, held)

    async def _referred(self, filter_subject: str, up_to: int) -> set[str]:
        """Return the names of the objects that messages up to a sequence refer to."""
        names: set[str] = set()
        after, more = 0, 1
        while more and after < up_to:
            found, more = await read_on(
                self._connection, stream_of(filter_subject), filter_subject, after
            )
            names |= {payload_of(each.body) for each in found if each.sequence <= up_to}
            after = found[-1].sequence if found else up_to
        return names

    async def acknowledged(self, durable: str) -> int:
        """Return the sequence up to which a durable has acknowledged every message."""
        stream = durable_named(durable).stream
        told = await self._connection.call(f"$JS.API.CONSUMER.INFO.{stream}.{durable}", {})
        return int(told["ack_floor"]["stream_seq"])

    async def announce(self, facts: ServiceFacts, stats: StatsSource) -> None:
        """Answer NATS's discovery for this service until the bus closes."""
        announced = Announced(facts, stats, self._commands.counted)

        def received(message: Msg) -> None:
            if is_inbox(message.reply):
                told = json.dumps(announced.told(message.subject), default=str)
                self._connection.send_soon(message.reply, told.encode())

        for subject in announced.subjects():
            await self._connection.subscribe(subject, received)
        await self._connection.settled()

    async def close(self) -> None:
        """Stop within a bound."""
        try:
            async with asyncio.timeout(2.0):
                await self._commands.close()
        except (TimeoutError, BusError) as error:
            _log.warning("bus %s: %s", self.name, error)
        await self._connection.close()

    async def _bury_command(self, asked: Asked, reason: str) -> None:
        letter, letter_id = dead_letter(self.name, reason, subject=asked.subject, body=asked.body)
        await self.publish(letter, id=letter_id)

    async def _bury_delivered(self, reason: str, message: Msg, place: Place) -> None:
        letter, letter_id = dead_letter(
            self.name,
            reason,
            subject=message.subject,
            body=bytes(message.data),
            stream=place.stream,
            sequence=place.sequence,
            deliveries=place.tries,
        )
        await self.publish(letter, id=letter_id)
