"""The bus over NATS: one connection, and a module of this package behind each call."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

from mlscope.bus.bus import LIMIT_RUNNING, Answerer, Bus, Delivery
from mlscope.bus.command_letters import CommandLetters
from mlscope.bus.discovery import ServiceInstance
from mlscope.bus.envelopes import (
    SkippingReader,
    dead_letter,
    encode_envelope,
    in_envelope,
    payload_name,
)
from mlscope.bus.errors import (
    BusError,
    Conflict,
    NotProvisioned,
    ServerRefused,
    Unreachable,
)
from mlscope.bus.inboxes import is_inbox
from mlscope.bus.live import LiveMessages
from mlscope.bus.nats.buckets import Buckets
from mlscope.bus.nats.commands import TRACEPARENT, Commands
from mlscope.bus.nats.connection import Connection, Msg
from mlscope.bus.nats.deliveries import DeliveryMetadata, Puller
from mlscope.bus.nats.health import answer_health_checks
from mlscope.bus.nats.log import StoredMessage, epoch_ns, read_on, tail
from mlscope.bus.nats.objects import Objects
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.nats.storing import EXPECTED, EXPECTED_ON, MESSAGE_ID, message_id, store
from mlscope.bus.nats.suspects import MessagesInHand
from mlscope.bus.records import (
    Backlog,
    Entry,
    Recorded,
    ServiceInfo,
    StatsSource,
    StreamContents,
    Traffic,
    Unreadable,
)
from mlscope.bus.streams import durable_named, stream_of
from schemas.dead import LetterBuried
from schemas.message import Fact
from schemas.subjects import subject_of

_log = logging.getLogger(__name__)


@asynccontextmanager
async def connect(
    settings: NatsSettings,
    name: str,
    *,
    timeout_s: float = 30.0,
    patience_s: float = 60.0,
    inbox: str = "",
) -> AsyncIterator[Bus]:
    """Open the bus of a service and close it on exit. Raises Unreachable.

    `settings` say where the server is. `name` is the name of the key, one of
    `permissions.PERMISSIONS`. `timeout_s` bounds the wait for a server now; `patience_s` bounds
    the wait of every later call for a lost server. `inbox` is the inbox prefix for answers, for a
    key that may use only part of its name's inbox (`permissions.agent_inbox`).
    """
    connection = Connection(settings, name, patience_s=patience_s, inbox=inbox)
    await connection.open(timeout_s)
    bus: Bus = NatsBus(connection)
    try:
        yield bus
    finally:
        await bus.close()


class NatsBus:
    """The `Bus` protocol over a NATS server; see `mlscope.bus.bus.Bus` for each method."""

    def __init__(self, connection: Connection) -> None:
        """Use an open connection; `close` closes it."""
        self.name = connection.name
        self._connection = connection
        self._buckets = Buckets(connection)
        self._in_hand = MessagesInHand(self)
        self._objects = Objects(connection)
        self._reader = SkippingReader(self._objects.get, connection.traffic)
        self._commands = Commands(connection, CommandLetters(self).bury)
        self._health: Connection | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the server is there now."""
        return self._connection.availability.is_up

    @property
    def traffic(self) -> Traffic:
        """The counts of this connection, so far."""
        return self._connection.traffic

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

        `cause`, `expected` and `traceparent` are as there. After a Conflict the log is read again:
        if it holds the same id, an earlier try was stored and only its acknowledgement was lost.
        The server drops a message whose `Nats-Msg-Id` it has seen lately, whoever sent that one, so
        no other key may foresee it.
        Raises Conflict, StreamFull, Unreachable.
        """
        headers = {MESSAGE_ID: message_id(self._connection.settings.nats_seed(), id)}
        if traceparent:
            headers[TRACEPARENT] = traceparent
        if expected is not None:
            headers |= {EXPECTED_ON: expected[0], EXPECTED: str(expected[1])}
        subject = subject_of(fact)
        envelope = in_envelope(fact, id=id, cause=cause, traceparent=traceparent)
        body = await encode_envelope(subject, envelope, self._objects.put)
        traffic = self._connection.traffic
        try:
            sequence = await store(self._connection, subject, body, headers=headers)
        except Conflict:
            assert expected is not None, "only a guarded write conflicts"
            later = await self.read(expected[0], after=expected[1])
            own_sequences = [recorded.sequence for recorded in later if recorded.envelope.id == id]
            if not own_sequences:
                raise
            sequence = own_sequences[0]
        traffic.published += 1
        traffic.buried += isinstance(fact, LetterBuried)
        return sequence

    async def publish_live(self, subject: str, body: bytes) -> None:
        """Send a message that is not stored."""
        await self._connection.send(subject, body)

    async def ask(
        self, subject: str, body: bytes, *, timeout_s: float = 5.0, traceparent: str = ""
    ) -> bytes:
        """Send `body` to `subject`; return the answer within `timeout_s`.

        `traceparent` is sent as a header. Raises NoAnswer, Unreachable.
        """
        return await self._commands.ask(subject, body, timeout_s, traceparent)

    async def ask_all(self, subject: str, *, within_s: float = 1.0) -> list[bytes]:
        """Return the answers of everybody on `subject` that come in time. Raises Unreachable."""
        return await self._commands.ask_all(subject, within_s)

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
        await self._commands.answer(
            subject,
            answerer,
            queue=queue or "",
            limit_pending=limit_pending,
            limit_running=limit_running,
        )

    def subscribe(self, subject: str) -> LiveMessages:
        """Return the live messages on `subject`."""
        return self._commands.subscribe(subject)

    def deliveries(
        self, durable: str, *, batch: int = 1
    ) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield deliveries of a durable, up to `batch` at a time."""
        try:
            known_durable = durable_named(durable)
        except KeyError as error:
            raise NotProvisioned(durable) from error
        puller = Puller(
            self._connection, known_durable, self._in_hand, self._objects.get, self._bury_delivered
        )
        return puller.deliveries(batch)

    async def read(
        self,
        filter_subject: str,
        *,
        after: int = 0,
        at_most: int = 0,
        unreadable: list[Unreadable] | None = None,
    ) -> list[Recorded]:
        """Return every fact on `filter_subject` with a sequence above `after`, in order.

        With `at_most`, reading ends once there are that many. What can't be decoded is added to
        `unreadable`.
        """
        facts: list[Recorded] = []
        stream = stream_of(filter_subject)
        remaining = 1
        while remaining:
            messages, remaining = await read_on(self._connection, stream, filter_subject, after)
            decoded = [await self._reader.decode(stored, unreadable) for stored in messages]
            facts += [fact for fact in decoded if fact is not None]
            after = messages[-1].sequence if messages else after
            is_enough = 0 < at_most <= len(facts)
            remaining = remaining if messages and not is_enough else 0
        return facts

    async def follow(
        self, filter_subject: str, *, after: int = 0
    ) -> AsyncGenerator[Recorded | None, None]:
        """Yield the facts on a filter in order, without end; None once when caught up."""
        following = tail(self._connection, stream_of(filter_subject), filter_subject, after)
        async with aclosing(following) as messages:
            async for stored in messages:
                if stored is None:
                    yield None
                elif (fact := await self._readable_at_last(stored)) is not None:
                    yield fact

    async def _readable_at_last(self, stored: StoredMessage) -> Recorded | None:
        """Decode a message, however long its payload's server is away."""
        while True:
            try:
                return await self._reader.decode(stored)
            except Unreachable as error:
                if self._connection.availability.closed.is_set():
                    raise
                _log.warning("%s is not read for now: %s", stored.subject, error)

    def unread(self, evaluation: str) -> int:
        """Return how many facts of an `evaluation` were read here and could not be decoded."""
        return self._reader.unread(evaluation)

    async def put(self, bucket: str, key: str, value: bytes, *, revision: int | None = None) -> int:
        """Set `key` in `bucket` to `value`, at `revision` if given. Raises Conflict."""
        return await self._buckets.put(bucket, key, value, revision)

    async def get(self, bucket: str, key: str) -> Entry | None:
        """Return a key's entry, or None."""
        return await self._buckets.get(bucket, key)

    async def delete(self, bucket: str, key: str) -> None:
        """Remove a key."""
        await self._buckets.delete(bucket, key)

    def watch(self, bucket: str) -> AsyncGenerator[Entry | None, None]:
        """Yield every current entry, then None once, then every change, without end."""
        return self._buckets.watch(bucket)

    async def changes(self, bucket: str, *, after: int) -> list[Entry]:
        """Return the keys whose newest revision is above `after`, in the order they were set."""
        return await self._buckets.changes(bucket, after)

    async def put_object(self, subject: str, name: str, body: bytes) -> str:
        """Store `body` as `name` for a fact on `subject`; return its sha256.

        Raises Conflict, PayloadsFull, Unreachable.
        """
        return await self._objects.put(subject, name, body)

    async def get_object(self, subject: str, name: str, sha256: str) -> bytes:
        """Return the payload `name` of a fact on `subject`, checked against `sha256`.

        Raises PayloadMismatch, NoSuchPayload.
        """
        return await self._objects.get(subject, name, sha256)

    async def purge(self, filter_subject: str, *, up_to: int = 0) -> None:
        """Delete a stream's messages on a filter, all or `up_to` a sequence, with their payloads.

        Messages are deleted first: if this is interrupted, a later purge finds the payloads.
        """
        chunks_by_payload = await self._objects.chunks_by_payload(filter_subject)
        payloads = set(chunks_by_payload)
        stream = stream_of(filter_subject)
        if chunks_by_payload and up_to:
            payloads.clear()
            after, remaining = 0, 1
            while remaining and after < up_to:
                messages, remaining = await read_on(self._connection, stream, filter_subject, after)
                payloads |= {
                    (message.subject, payload_name(message.body))
                    for message in messages
                    if message.sequence <= up_to
                }
                after = messages[-1].sequence if messages else up_to
        api = self._connection.managing(f"STREAM.PURGE.{stream}")
        limit = {"seq": up_to + 1} if up_to else {}
        await self._connection.call(api, {"filter": filter_subject, **limit})
        await self._objects.drop(payloads, chunks_by_payload)

    async def contents(self, stream: str, *, on: str = "") -> StreamContents:
        """Return what a stream holds, and how many messages `on` a filter. Raises BusError."""
        api = self._connection.managing(f"STREAM.INFO.{stream}")
        info = await self._connection.call(api, {"subjects_filter": on} if on else {})
        state = info["state"]
        return StreamContents(
            first=state["first_seq"],
            last=state["last_seq"],
            size_bytes=state["bytes"],
            max_bytes=info["config"]["max_bytes"],
            messages=sum((state.get("subjects") or {}).values()),
        )

    def _state_of(self, durable: str) -> str:
        stream = durable_named(durable).stream
        return self._connection.managing(f"CONSUMER.INFO.{stream}.{durable}")

    async def acknowledged(self, durable: str) -> int:
        """Return the sequence up to which every message of a durable is acknowledged."""
        info = await self._connection.call(self._state_of(durable), {})
        return int(info["ack_floor"]["stream_seq"])

    async def backlog(self, durable: str) -> Backlog:
        """Return what a durable has still to do. Raises BusError."""
        subject = self._state_of(durable)
        info = json.loads((await self._connection.request(subject, b"")).data)
        if "error" in info:
            raise ServerRefused.of(subject, info["error"])
        return Backlog(
            info["num_pending"],
            info["num_ack_pending"],
            info["num_redelivered"],
            epoch_ns(info["ts"]),
        )

    async def announce(self, info: ServiceInfo, stats: StatsSource) -> ServiceInstance:
        """Answer NATS service discovery until the bus closes; return the instance."""
        instance = ServiceInstance(info, stats, self._commands.counts_of)

        def received(message: Msg) -> None:
            if is_inbox(message.reply):
                answer = json.dumps(instance.answer_to(message.subject), default=str)
                self._connection.send_soon(message.reply, answer.encode())

        for subject in set(instance.subjects()) - {instance.health_subject}:
            await self._connection.subscribe(subject, received)
        await self._connection.settled()
        self._health = await answer_health_checks(self._connection, instance)
        return instance

    async def wait_closed(self) -> BusError | None:
        """Return once the connection is closed: None by us, or why by the server for good."""
        await self._connection.availability.closed.wait()
        return self._connection.end_cause

    async def close(self) -> None:
        """Close within a bounded time."""
        try:
            async with asyncio.timeout(2.0):
                await self._commands.close()
                await self._in_hand.clear_suspect()
        except (TimeoutError, BusError) as error:
            _log.warning("bus %s: %s", self.name, error)
        if self._health is not None:
            await self._health.close()
        await self._connection.close()

    async def _bury_delivered(self, reason: str, message: Msg, place: DeliveryMetadata) -> None:
        letter, letter_id = dead_letter(
            self.name,
            reason,
            subject=message.subject,
            body=bytes(message.data),
            stream=place.stream,
            sequence=place.sequence,
            deliveries=place.tries,
            retries=place.retries,
        )
        await self.publish(letter, id=letter_id)
