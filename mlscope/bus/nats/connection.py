"""One NATS connection: requests with bounds, who waits for what, and errors in our words."""

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError

from mlscope.bus.errors import (
    BusError,
    NoAnswer,
    NotPermitted,
    PayloadTooLarge,
    ServerRefused,
    Silence,
    Unreachable,
)
from mlscope.bus.permissions import inbox_prefix

_log = logging.getLogger(__name__)
_DENIED = "permissions violation for "
_ATTEMPT_S = 2.0
_PENDING_BYTES = 16 * 1024 * 1024

T = TypeVar("T")

__all__ = ["Connection", "Msg", "NatsSettings", "Subscription"]


class NatsSettings(Protocol):
    """What a connection needs to know of the settings."""

    @property
    def nats_url(self) -> str:
        """Where the server is; several of one cluster, comma separated."""
        ...

    @property
    def max_pending_requests(self) -> int:
        """Commands that may wait for their answer before the next is refused as busy."""
        ...

    def nats_seed(self) -> str | None:
        """Read the nkey seed of this connection; None where users have no keys."""
        ...


@dataclass(slots=True)
class _Waiting:
    """Somebody waits for replies to what was sent to `subject`."""

    subject: str
    receive: Callable[[Msg], None]
    fail: Callable[[BusError], None]


class Connection:
    """A connection that outlives its server. Whoever waits is told at once when it is lost."""

    def __init__(self, settings: NatsSettings, name: str, *, patience_s: float = 60.0) -> None:
        """Keep the settings; `open` connects. `patience_s` bounds the wait for a lost server."""
        self.name = name
        self.patience_s = patience_s
        self.attempt_s = min(_ATTEMPT_S, patience_s)
        self.settings = settings
        self.client: Client = Client()
        self.closed = asyncio.Event()
        self._up = asyncio.Event()
        self._inbox = f"{inbox_prefix(name)}.{secrets.token_hex(8)}"
        self._waiting: dict[str, _Waiting] = {}
        self._count = 0
        self._last_failure = ""
        self._sending: set[asyncio.Task[None]] = set()
        self._on_reconnect: set[Callable[[], None]] = set()

    async def open(self, timeout_s: float) -> None:
        """Connect. Raises Unreachable when no server is there within the bound."""
        seed = self.settings.nats_seed()
        options: dict[str, Any] = {} if seed is None else {"nkeys_seed_str": seed}
        options["reconnect_time_wait"] = 0.1  # typed int, taken by asyncio.sleep
        connecting = self.client.connect(
            servers=self.settings.nats_url.split(","),
            name=self.name,
            inbox_prefix=inbox_prefix(self.name).encode(),
            error_cb=self._failed,
            disconnected_cb=self._disconnected,
            reconnected_cb=self._reconnected,
            max_reconnect_attempts=-1,
            pending_size=_PENDING_BYTES,
            connect_timeout=2,
            **options,
        )
        try:
            async with asyncio.timeout(timeout_s):
                await connecting
                await self.client.subscribe(f"{self._inbox}.*", cb=self._replied)
        except (TimeoutError, OSError, NatsError) as error:
            await self.close()
            raise Unreachable(f"{self.settings.nats_url}: {error or 'no answer'}") from error
        self._up.set()

    async def close(self) -> None:
        """Send what is pending and disconnect; whoever waits gets Unreachable."""
        self.closed.set()
        self._up.set()
        self._fail_all(Unreachable("the bus is closed"))
        try:
            async with asyncio.timeout(2.0):
                if self.client.is_connected:
                    await self.client.flush(timeout=1)
                await self.client.close()
        except (TimeoutError, NatsError) as error:
            _log.warning("closing %s: %s", self.name, error)

    async def send(
        self,
        subject: str,
        body: bytes,
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a message. Raises Unreachable, PayloadTooLarge."""
        try:
            await self.client.publish(subject, body, reply, dict(headers) if headers else None)
        except MaxPayloadError as error:
            raise PayloadTooLarge(subject, len(body), self.client.max_payload) from error
        except NatsError as error:
            raise Unreachable(f"{subject}: {error}") from error

    def send_soon(self, subject: str, body: bytes) -> None:
        """Send a message from where nothing can be awaited; a failure is logged."""
        task = asyncio.get_running_loop().create_task(self.send(subject, body))
        self._sending.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.warning("not sent: %s", task.exception())

    @property
    def is_up(self) -> bool:
        """Whether a server is connected now."""
        return self._up.is_set() and not self.closed.is_set()

    async def settled(self) -> None:
        """Return once the server has seen what was sent so far, or is away."""
        try:
            # nats-py's first PING overtakes what is pending; it is written when the PONG comes.
            await self.client.flush(timeout=2)
            await self.client.flush(timeout=2)
        except NatsError as error:
            _log.info("connection %s: %s", self.name, error)

    async def request(
        self,
        subject: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Msg:
        """Send a message and return the first reply. Raises NoAnswer when nobody listens.

        Also raises Silence (no reply in time), Unreachable, NotPermitted, PayloadTooLarge.
        """
        if not self.is_up:
            raise Unreachable(self.settings.nats_url)
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        token = self.expect(subject, _once(future), _fails(future))
        try:
            async with asyncio.timeout(self.attempt_s if timeout_s is None else timeout_s):
                await self.send(subject, body, reply=token, headers=headers)
                message = await future
        except TimeoutError as error:
            raise Silence(subject) from error
        finally:
            self.forget(token)
        if message.headers and message.headers.get("Status") == "503":
            raise NoAnswer(subject)
        return message

    async def call(self, subject: str, request: Mapping[str, Any]) -> Any:
        """Call JetStream's API until it answers. Raises ServerRefused, NoAnswer, Unreachable."""
        body = json.dumps(request).encode() if request else b""

        async def once() -> Any:
            answer = json.loads((await self.request(subject, body)).data)
            if "error" in answer:
                raise ServerRefused.of(subject, answer["error"])
            return answer

        return await self.patiently(once)

    async def patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat `attempt` while the server is away, for `patience_s`; raise what it raised."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.patience_s
        pause_s = 0.02
        while True:
            try:
                return await attempt()
            except (Unreachable, NoAnswer):
                if loop.time() + pause_s >= end or self.closed.is_set():
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 1.0)
            await self.wait_up(end - loop.time())

    async def wait_up(self, timeout_s: float) -> None:
        """Return once a server is connected or the bus is closed. Raises Unreachable."""
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):
                await self._up.wait()
        except TimeoutError as error:
            raise Unreachable(self.settings.nats_url) from error

    async def subscribe(
        self, subject: str, receive: Callable[[Msg], None], *, queue: str = ""
    ) -> Subscription:
        """Have `receive` called with each message on `subject`. Raises Unreachable."""

        async def received(message: Msg) -> None:
            receive(message)

        try:
            return await self.client.subscribe(subject, queue, cb=received)
        except NatsError as error:
            raise Unreachable(f"{subject}: {error}") from error

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; without effect on a closed connection."""
        try:
            await subscription.unsubscribe()
        except NatsError:
            _log.debug("subscription %s is gone already", subscription.subject)

    def expect(
        self, subject: str, receive: Callable[[Msg], None], fail: Callable[[BusError], None]
    ) -> str:
        """Return a reply subject; what comes there goes to `receive` until `forget`."""
        self._count += 1
        token = f"{self._inbox}.{self._count:x}"
        self._waiting[token] = _Waiting(subject, receive, fail)
        if self.closed.is_set():
            fail(Unreachable("the bus is closed"))
        return token

    def forget(self, token: str) -> None:
        """Expect nothing more under a reply subject."""
        self._waiting.pop(token, None)

    def on_reconnect(self, wake: Callable[[], None]) -> None:
        """Have `wake` called after every reconnect and at the close, until `off_reconnect`."""
        self._on_reconnect.add(wake)

    def off_reconnect(self, wake: Callable[[], None]) -> None:
        """Undo `on_reconnect`."""
        self._on_reconnect.discard(wake)

    async def _replied(self, message: Msg) -> None:
        waiting = self._waiting.get(message.subject)
        if waiting is not None:
            waiting.receive(message)

    async def _failed(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        is_repeated = text == self._last_failure
        self._last_failure = text
        _log.log(logging.DEBUG if is_repeated else logging.WARNING, "%s: %s", self.name, text)
        if _DENIED in text:
            denied = text.split('"')[1] if '"' in text else ""
            for waiting in list(self._waiting.values()):
                if waiting.subject.lower() == denied.lower():
                    waiting.fail(NotPermitted(waiting.subject))

    async def _disconnected(self) -> None:
        if not self.closed.is_set():
            self._up.clear()
        self._fail_all(Unreachable(self.settings.nats_url))

    async def _reconnected(self) -> None:
        _log.info("%s: connected again", self.name)
        self._last_failure = ""
        self._up.set()
        for wake in list(self._on_reconnect):
            wake()

    def _fail_all(self, error: BusError) -> None:
        for waiting in list(self._waiting.values()):
            waiting.fail(error)
        if self.closed.is_set():
            for wake in list(self._on_reconnect):
                wake()


def _once(future: asyncio.Future[Msg]) -> Callable[[Msg], None]:
    def receive(message: Msg) -> None:
        if not future.done():
            future.set_result(message)

    return receive


def _fails(future: asyncio.Future[Msg]) -> Callable[[BusError], None]:
    def fail(error: BusError) -> None:
        if not future.done():
            future.set_exception(error)

    return fail
