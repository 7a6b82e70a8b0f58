"""Durables over JetStream: pull, decode, acknowledge; messages that can't be used are buried.

A pull first requests the messages that are available now. Only if there are none does it wait for
one message. So no message waits in this process while another instance is idle.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from mlscope.bus.bus import Delivery
from mlscope.bus.envelopes import UNDECODABLE, FetchPayload, decode_recorded
from mlscope.bus.errors import BusError, NoAnswer, NotPermitted, NotProvisioned, Unreachable
from mlscope.bus.inboxes import is_inbox
from mlscope.bus.nats.connection import Connection, Msg
from mlscope.bus.nats.letters import FAILED, RetryOrder, stored_message
from mlscope.bus.nats.suspects import MessagesInHand
from mlscope.bus.records import Recorded
from mlscope.bus.streams import Durable, matches
from schemas.subjects import place_of, retry_subject

_log = logging.getLogger(__name__)
_LINGER_S = 2.0
_GRACE_S = 2.0

Buried = Callable[[str, Msg, "DeliveryMetadata"], Awaitable[None]]
"""Records the dead letter of a message, given the reason, the message and its metadata."""


@dataclass(frozen=True, slots=True)
class DeliveryMetadata:
    """The stream, sequence and tries of a delivered message, from its reply subject."""

    stream: str
    sequence: int
    tries: int
    #: how often an operator had the message handled again, this time included
    retries: int = 0
    #: when the server stored it, by its clock (epoch nanoseconds)
    stored_ns: int = 0


def metadata_of(reply: str) -> DeliveryMetadata:
    """Parse `$JS.ACK[.<domain>.<account>].<stream>.<consumer>.<tries>.<sequence>.….<time>.…`."""
    tokens = reply.split(".")
    start = 2 if len(tokens) < 11 else 4
    tries, sequence, _, stored_ns = map(int, tokens[start + 2 : start + 6])
    return DeliveryMetadata(tokens[start], sequence, tries, stored_ns=stored_ns)


_Pulled = tuple[Msg, DeliveryMetadata]
"""A message that was pulled, not decoded yet."""


class NatsDelivery:
    """One delivered fact."""

    def __init__(
        self, puller: "Puller", message: Msg, metadata: DeliveryMetadata, recorded: Recorded
    ) -> None:
        """Wrap `message`, pulled by `puller`, its `metadata` and the decoded fact `recorded`."""
        self._puller = puller
        self._message = message
        self._metadata = metadata
        self._recorded = recorded
        self.position = (puller.durable.name, metadata.sequence)

    @property
    def recorded(self) -> Recorded:
        """The fact."""
        return self._recorded

    @property
    def tries(self) -> int:
        """The number of deliveries of this fact so far, from 1."""
        return self._metadata.tries

    async def ack(self) -> None:
        """Acknowledge the fact; if the acknowledgement is lost, it is delivered again."""
        await self._puller.in_hand.settle(self.position, is_over=True)
        await self._reply(b"+ACK")

    async def retry(self, delay_s: float | None = None) -> None:
        """Request redelivery after a delay, or bury the fact after its last try."""
        durable = self._puller.durable
        if self.tries >= durable.max_deliver:
            await self.bury(f"given up after {self.tries} tries")
            return
        steps = durable.backoff_s
        if delay_s is None:
            delay_s = steps[min(self.tries, len(steps)) - 1]
        await self._puller.in_hand.settle(self.position, is_over=False)
        await self._reply(b"-NAK " + json.dumps({"delay": int(delay_s * 1e9)}).encode())

    async def in_progress(self) -> None:
        """Restart the durable's acknowledgement time."""
        self._puller.in_hand.hold(self.position, self._puller.durable.ack_wait_s)
        # An operator's order has one answer: how it ended.
        if not self._metadata.retries:
            await self._reply(b"+WPI")

    async def bury(self, reason: str) -> None:
        """Record a dead letter and end the deliveries of this fact.

        Raises the errors of publishing.
        """
        await self._puller.bury(self._message, self._metadata, reason)

    async def _reply(self, reply: bytes) -> None:
        try:
            await self._puller.connection.send(self._message.reply, reply)
        except Unreachable as error:
            _log.warning("%s not sent for %s: %s", reply[:4], self.recorded.subject, error)


class Puller:
    """Pulls from one durable for as long as the bus is open."""

    def __init__(
        self,
        connection: Connection,
        durable: Durable,
        in_hand: MessagesInHand,
        fetch: FetchPayload,
        buried: Buried,
    ) -> None:
        """Pull from `durable` over `connection`; `in_hand` holds what is under way.

        `fetch` returns large payloads, `buried` records dead letters.
        """
        self.connection = connection
        self.durable = durable
        self.in_hand = in_hand
        self._fetch = fetch
        self._buried = buried
        self._replies: asyncio.Queue[Msg | BusError] = asyncio.Queue()
        self._inbox = ""
        self._pulls = 0
        #: messages that an operator had handled again, by the subject that hears how it ended
        self._given_again: dict[str, DeliveryMetadata] = {}
        self._missing_since_s: float | None = None
        self._failing_since_s: float | None = None
        self._api = f"$JS.API.CONSUMER.MSG.NEXT.{durable.stream}.{durable.name}"

    async def deliveries(self, batch: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield deliveries, up to `batch` at a time. Raises NotProvisioned, NotPermitted."""
        # Pulled messages arrive by the subscription below, so nothing comes on the inbox itself.
        self._inbox = self.connection.expect(self._api, lambda _: None, self._replies.put_nowait)
        subscription = await self.connection.subscribe(f"{self._inbox}.*", self._replies.put_nowait)
        name = self.durable.name
        orders = await self.connection.subscribe(retry_subject(name), self._give_again, queue=name)
        try:
            while not self.connection.availability.closed.is_set():
                usual, suspects = await self._next(batch)
                if usual:
                    positions = [delivery.position for delivery in usual]
                    await self.in_hand.take(positions, self.durable.ack_wait_s)
                    yield usual
                async with aclosing(self._each_alone(suspects)) as singles:
                    async for single in singles:
                        yield [single]
        finally:
            self.connection.forget(self._inbox)
            await self.connection.unsubscribe(subscription)
            await self.connection.drain(orders)
            # Messages that arrived after the cancellation go back at once, for other instances.
            while not self._replies.empty():
                late_reply = self._replies.get_nowait()
                if not isinstance(late_reply, BusError) and late_reply.reply:
                    self.connection.send_soon(late_reply.reply, b"-NAK")

    async def _each_alone(self, suspects: Sequence[_Pulled]) -> AsyncGenerator[NatsDelivery, None]:
        """Yield suspects when nothing else is in hand; bury those that were so at a death."""
        clock = asyncio.get_running_loop().time
        extended_s = clock()
        for index, (message, metadata) in enumerate(suspects):
            if clock() - extended_s > self.durable.ack_wait_s / 3:
                extended_s = clock()
                for later, _ in suspects[index:]:
                    self.connection.send_soon(later.reply, b"+WPI")
            position = (self.durable.name, metadata.sequence)
            async with self.in_hand.handling_alone(position) as reason:
                if reason:
                    await self._give_up(message, metadata, reason)
                    continue
                try:
                    delivery = await self._decode_or_bury(message, metadata)
                except BusError as error:
                    subject = message.subject
                    unread = "%s is not read for now: %s"
                    _log.warning(unread, subject, error, extra=place_of(subject))
                    continue
                if delivery is not None:
                    self.in_hand.hold(position, self.durable.ack_wait_s)
                    yield delivery

    async def _next(self, batch: int) -> tuple[list[NatsDelivery], list[_Pulled]]:
        """Return deliveries that may be handled together, and the suspects among the messages."""
        try:
            messages = await self._pull(batch, {"no_wait": True})
            if not messages:
                messages = await self._pull(1, {"expires": int(_LINGER_S * 1e9)})
                if messages and batch > 1:
                    messages += await self._pull(batch - 1, {"no_wait": True})
            self._missing_since_s = self._failing_since_s = None
            usual: list[_Pulled] = []
            suspects: list[_Pulled] = []
            for message in messages:
                order = self._given_again.pop(message.reply, None)
                metadata = order or metadata_of(message.reply)
                position = (self.durable.name, metadata.sequence)
                is_suspect = order is None and self.in_hand.receive(position, metadata.tries)
                (suspects if is_suspect else usual).append((message, metadata))
            decoded = [await self._decode_or_bury(*pulled) for pulled in usual]
            return [delivery for delivery in decoded if delivery is not None], suspects
        except (NotPermitted, NotProvisioned):
            raise
        except BusError as error:
            await self._pause_after(error)
            return [], []

    async def _pause_after(self, error: BusError) -> None:
        """Wait a moment after an error.

        Raises NotProvisioned when there was no answer for the connection's patience.
        """
        now_s = asyncio.get_running_loop().time()
        _log.info("durable %s: %s", self.durable.name, error)
        missing_since_s = self._missing_since_s or now_s
        if isinstance(error, NoAnswer) and now_s > missing_since_s + self.connection.patience_s:
            raise NotProvisioned(self.durable.name) from error
        self._missing_since_s = missing_since_s if isinstance(error, NoAnswer) else None
        await asyncio.sleep(0.05)
        self._failing_since_s = await self.connection.leave_if_silent(
            self._failing_since_s or now_s
        )
        with contextlib.suppress(Unreachable):
            await self.connection.availability.wait_up(_LINGER_S)

    async def bury(self, message: Msg, metadata: DeliveryMetadata, reason: str) -> None:
        """Record the dead letter of `message`, then end its deliveries.

        The letter holds its `metadata` and the `reason`.
        """
        await self._buried(reason, message, metadata)
        await self.in_hand.settle((self.durable.name, metadata.sequence), is_over=True)
        await self.connection.send(message.reply, b"+TERM " + reason.encode()[:200])

    async def _give_again(self, request: Msg) -> None:
        """Read the message of an operator's order, and deliver it as if the server had.

        Its acknowledgement goes to the operator, who keeps the letter without one.
        """
        if not is_inbox(request.reply):
            return
        try:
            order = RetryOrder.decode(bytes(request.data))
            stored = await stored_message(self.connection, self.durable.stream, order.sequence)
            if stored is None:
                raise ValueError(f"{self.durable.stream} no longer has message {order.sequence}")
            if not any(matches(pattern, stored.subject) for pattern in self.durable.filters):
                raise ValueError(f"{stored.subject} is not for the durable {self.durable.name}")
        except (BusError, ValueError) as error:
            self.connection.send_soon(request.reply, FAILED + str(error).encode())
            return
        self._given_again[request.reply] = DeliveryMetadata(
            self.durable.stream, order.sequence, order.tries, order.retries, stored.stored_ns
        )
        self._replies.put_nowait(
            Msg(self.connection.client, stored.subject, request.reply, stored.body)
        )

    async def _pull(self, batch: int, options: Mapping[str, object]) -> list[Msg]:
        """Return up to `batch` messages of one request.

        The server ends a request with a status message. A lost connection or missing replies end
        it here.
        """
        self._pulls += 1
        reply_subject = f"{self._inbox}.{self._pulls}"
        request = json.dumps({"batch": batch, **options}).encode()
        await self.connection.send(self._api, request, reply=reply_subject)
        messages: list[Msg] = []
        try:
            async with asyncio.timeout(_LINGER_S + _GRACE_S):
                while len(messages) < batch:
                    reply = await self._replies.get()
                    if isinstance(reply, BusError):
                        raise reply
                    if not reply.subject.startswith(self._inbox):
                        messages.append(reply)
                    elif reply.subject == reply_subject and self._ends_request(reply):
                        break
        except (TimeoutError, Unreachable) as error:
            if not messages:
                raise Unreachable(f"durable {self.durable.name}") from error
        return messages

    def _ends_request(self, reply: Msg) -> bool:
        """Tell whether a status message ends its request; heartbeats do not."""
        headers = reply.headers or {}
        status, described = headers.get("Status"), headers.get("Description", "")
        if "Deleted" in described:
            raise NotProvisioned(self.durable.name)
        if status == "503":
            raise NoAnswer(self._api)
        return status != "100"

    async def _decode_or_bury(
        self, message: Msg, metadata: DeliveryMetadata
    ) -> NatsDelivery | None:
        try:
            recorded = await decode_recorded(
                message.subject,
                metadata.sequence,
                bytes(message.data),
                self._fetch,
                stored_ns=metadata.stored_ns,
            )
        except UNDECODABLE as error:
            await self._give_up(message, metadata, str(error))
            return None
        if metadata.tries > self.durable.max_deliver:
            await self._give_up(message, metadata, f"given up after {metadata.tries - 1} tries")
            return None
        traffic = self.connection.traffic
        traffic.delivered += 1
        traffic.redelivered += metadata.tries > 1
        return NatsDelivery(self, message, metadata, recorded)

    async def _give_up(self, message: Msg, metadata: DeliveryMetadata, reason: str) -> None:
        place = place_of(message.subject)
        _log.warning("buried %s at %d: %s", message.subject, metadata.sequence, reason, extra=place)
        try:
            await self.bury(message, metadata, reason)
        except BusError as error:
            unburied = "no dead letter for %s, it will be retried: %s"
            _log.error(unburied, message.subject, error, extra=place)
