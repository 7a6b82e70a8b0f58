"""Durables over JetStream: pull, decode, acknowledge; what can't be used is buried.

One request asks for what is there now; only when nothing is, one message is waited for. So no
message lies in this process unasked for while another instance is idle.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from mlscope.bus.bus import Delivery, Recorded
from mlscope.bus.errors import BusError, NoAnswer, NotPermitted, NotProvisioned, Unreachable
from mlscope.bus.letters import USELESS, Fetch, opened
from mlscope.bus.nats.connection import Connection, Msg
from mlscope.bus.streams import Durable

_log = logging.getLogger(__name__)
_LINGER_S = 2.0
_GRACE_S = 2.0

Buried = Callable[[str, Msg, "Place"], Awaitable[None]]
"""Writes the dead letter of a message, with the reason."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a delivered message comes from, as its reply subject tells."""

    stream: str
    sequence: int
    tries: int


def place_of(reply: str) -> Place:
    """Read `$JS.ACK[.<domain>.<account>].<stream>.<consumer>.<tries>.<sequence>.…`."""
    tokens = reply.split(".")
    start = 2 if len(tokens) < 11 else 4
    return Place(tokens[start], int(tokens[start + 3]), int(tokens[start + 2]))


class NatsDelivery:
    """One delivered fact."""

    def __init__(self, puller: "Puller", message: Msg, place: Place, recorded: Recorded) -> None:
        """Belong to the puller that asked for it."""
        self._puller = puller
        self._message = message
        self._place = place
        self._recorded = recorded

    @property
    def recorded(self) -> Recorded:
        """The fact."""
        return self._recorded

    @property
    def tries(self) -> int:
        """How often it was delivered, from 1."""
        return self._place.tries

    async def ack(self) -> None:
        """Say that it is done; a lost acknowledgement brings it again."""
        await self._say(b"+ACK")

    async def retry(self, delay_s: float | None = None) -> None:
        """Ask for it again after a delay, or bury it past its last try."""
        durable = self._puller.durable
        if self.tries >= durable.max_deliver:
            await self.bury(f"given up after {self.tries} tries")
            return
        steps = durable.backoff_s
        if delay_s is None:
            delay_s = steps[min(self.tries, len(steps)) - 1]
        await self._say(b"-NAK " + json.dumps({"delay": int(delay_s * 1e9)}).encode())

    async def working(self) -> None:
        """Ask for as much time again as the durable gives."""
        await self._say(b"+WPI")

    async def bury(self, reason: str) -> None:
        """Write a dead letter, then never see it again. Raises what publishing raises."""
        await self._puller.bury(self._message, self._place, reason)

    async def _say(self, word: bytes) -> None:
        try:
            await self._puller.connection.send(self._message.reply, word)
        except Unreachable as error:
            _log.warning("%s was not said of %s: %s", word[:4], self.recorded.subject, error)


class Puller:
    """Pulls from one durable for as long as the bus is open."""

    def __init__(
        self, connection: Connection, durable: Durable, fetch: Fetch, buried: Buried
    ) -> None:
        """`fetch` gets large payloads, `buried` writes dead letters."""
        self.connection = connection
        self.durable = durable
        self._fetch = fetch
        self._buried = buried
        self._replies: asyncio.Queue[Msg | BusError] = asyncio.Queue()
        self._inbox = ""
        self._pulls = 0
        self._missing_since: float | None = None
        self._api = f"$JS.API.CONSUMER.MSG.NEXT.{durable.stream}.{durable.name}"

    async def deliveries(self, batch: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield what is delivered, up to `batch` at a time. Raises NotProvisioned, NotPermitted."""
        self._inbox = self.connection.expect(self._api, _ignore, self._replies.put_nowait)
        subscription = await self.connection.subscribe(f"{self._inbox}.*", self._replies.put_nowait)
        try:
            while not self.connection.closed.is_set():
                usable = await self._next(batch)
                if usable:
                    yield usable
        finally:
            self.connection.forget(self._inbox)
            await self.connection.unsubscribe(subscription)
            self._send_back()

    async def _next(self, batch: int) -> list[Delivery]:
        try:
            messages = await self._pull(batch, {"no_wait": True})
            if not messages:
                messages = await self._pull(1, {"expires": int(_LINGER_S * 1e9)})
                if messages and batch > 1:
                    messages += await self._pull(batch - 1, {"no_wait": True})
            self._missing_since = None
            return [each for m in messages if (each := await self._usable(m)) is not None]
        except (NotPermitted, NotProvisioned):
            raise
        except BusError as error:
            await self._rest(error)
            return []

    async def _rest(self, error: BusError) -> None:
        """Wait a little after an error; nobody answering for long means that nobody is there."""
        loop = asyncio.get_running_loop()
        _log.info("durable %s: %s", self.durable.name, error)
        if not isinstance(error, NoAnswer):
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = loop.time()
        elif loop.time() > self._missing_since + self.connection.patience_s:
            raise NotProvisioned(self.durable.name) from error
        await asyncio.sleep(0.05)
        with contextlib.suppress(Unreachable):
            await self.connection.wait_up(_LINGER_S)

    async def bury(self, message: Msg, place: Place, reason: str) -> None:
        """Write the dead letter of a message, then end it."""
        await self._buried(reason, message, place)
        await self.connection.send(message.reply, b"+TERM " + reason.encode()[:200])

    async def _pull(self, batch: int, how: Mapping[str, object]) -> list[Msg]:
        """Return up to `batch` messages of one request.

        The server ends a request by a status; a lost connection or silence ends it here.
        """
        self._pulls += 1
        asked_on = f"{self._inbox}.{self._pulls}"
        request = json.dumps({"batch": batch, **how}).encode()
        await self.connection.send(self._api, request, reply=asked_on)
        messages: list[Msg] = []
        try:
            async with asyncio.timeout(_LINGER_S + _GRACE_S):
                while len(messages) < batch:
                    reply = await self._replies.get()
                    if isinstance(reply, BusError):
                        raise reply
                    if not reply.subject.startswith(self._inbox):
                        messages.append(reply)
                    elif reply.subject == asked_on and self._is_end(reply):
                        break
        except (TimeoutError, Unreachable) as error:
            if not messages:
                raise Unreachable(f"durable {self.durable.name}") from error
        return messages

    def _send_back(self) -> None:
        """Return what came after its asker was cancelled, for another instance to have now."""
        while not self._replies.empty():
            late = self._replies.get_nowait()
            if not isinstance(late, BusError) and late.reply:
                self.connection.send_soon(late.reply, b"-NAK")

    def _is_end(self, reply: Msg) -> bool:
        """Tell whether a status ends its request; heartbeats do not."""
        headers = reply.headers or {}
        status, described = headers.get("Status"), headers.get("Description", "")
        if "Deleted" in described:
            raise NotProvisioned(self.durable.name)
        if status == "503":
            raise NoAnswer(self._api)
        return status != "100"

    async def _usable(self, message: Msg) -> Delivery | None:
        place = place_of(message.reply)
        try:
            recorded = await opened(
                message.subject, place.sequence, bytes(message.data), self._fetch
            )
        except USELESS as error:
            await self._give_up(message, place, str(error))
            return None
        if place.tries > self.durable.max_deliver:
            await self._give_up(message, place, f"given up after {place.tries - 1} tries")
            return None
        return NatsDelivery(self, message, place, recorded)

    async def _give_up(self, message: Msg, place: Place, reason: str) -> None:
        _log.warning("buried %s at %d: %s", message.subject, place.sequence, reason)
        try:
            await self.bury(message, place, reason)
        except BusError as error:
            _log.error("no dead letter for %s, it comes again: %s", message.subject, error)


def _ignore(_: Msg) -> None:
    """Take no notice: pulled messages come by the puller's own subscription."""
