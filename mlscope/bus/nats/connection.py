"""One NATS connection: bounded requests, reply subjects, reconnects, and translated errors."""

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError

from mlscope.bus.access.accounts import LOG, account_of
from mlscope.bus.errors import (
    BusError,
    KeyRevoked,
    NoAnswer,
    NoReply,
    NotPermitted,
    PayloadTooLarge,
    ServerRefused,
    SubjectTooLong,
    Unreachable,
)
from mlscope.bus.inboxes import inbox_prefix
from mlscope.bus.nats.batch_reads import BatchReads
from mlscope.bus.nats.connecting.availability import Availability
from mlscope.bus.nats.connecting.client import TidyClient, is_of_use
from mlscope.bus.nats.connecting.key_rejection import KeyRejection
from mlscope.bus.nats.connecting.replies import ReplySubjects, first_of
from mlscope.bus.nats.dialing import trust
from mlscope.bus.nats.settings import NatsSettings
from mlscope.bus.records import Traffic
from mlscope.bus.streams import JETSTREAM, managed
from mlscope.redaction import redact

_log = logging.getLogger(__name__)
_ATTEMPT_S = 2.0
_PING_S = 10
_SILENT_S = 10.0
"""How long a server of several may fail a call before another one is tried: the servers elect a
leader in less."""
_PENDING_BYTES = 16 * 1024 * 1024

MAX_SUBJECTS = 3800
"""The most characters of a subject and its reply subject: the server closes a connection that sends
a control line of more than 4,096 bytes, and sends an agent's message on with replies of its own."""

T = TypeVar("T")

Receive = Callable[[Msg], Awaitable[None] | None]
"""Handles a message. If it returns an awaitable, the next messages wait until that is done."""

__all__ = ["Connection", "Msg", "Subscription"]


class Connection:
    """A connection that survives a restart of its server; waiting callers fail at once."""

    def __init__(
        self, settings: NatsSettings, name: str, *, patience_s: float = 60.0, inbox: str = ""
    ) -> None:
        """Take the settings; `open` connects.

        `name` is the name of the connection and of its key. `patience_s` bounds the wait for a
        lost server. Answers arrive below the inbox prefix of `inbox`, or of `name` if it is empty.
        """
        self.name = name
        self.inbox = inbox
        self.patience_s = patience_s
        self.attempt_s = min(_ATTEMPT_S, patience_s)
        self.settings = settings
        self.client = TidyClient()
        self.client.broker_uid = settings.broker_uid
        logging.getLogger("asyncio").addFilter(is_of_use)
        self._traffic = Traffic()
        self._rejection = KeyRejection()
        self._place = redact(settings.nats_url)
        self.availability = Availability(self._place)
        self._replies = ReplySubjects(f"{inbox_prefix(inbox or name)}.{secrets.token_hex(8)}")
        self._last_failure = ""
        self._sending: set[asyncio.Task[None]] = set()
        self.batch_reads = BatchReads()
        self._closing: asyncio.Task[None] | None = None
        #: why its server ended it for good; None where `close` did
        self.end_cause: BusError | None = None

    async def open(self, timeout_s: float) -> None:
        """Connect within `timeout_s`. Raises Unreachable (no server), NotPermitted (wrong key)."""
        seed = self.settings.nats_seed()
        options: dict[str, Any] = {} if seed is None else {"nkeys_seed_str": seed}
        options["reconnect_time_wait"] = 0.1  # typed int, taken by asyncio.sleep
        if "tls://" in self.settings.nats_url:
            options["tls"] = trust(self.settings.tls_authority_file)
        connecting = self.client.connect(
            servers=self.settings.nats_url.split(","),
            name=self.name,
            inbox_prefix=self._replies.inbox.encode(),
            error_cb=self._failed,
            disconnected_cb=self._disconnected,
            reconnected_cb=self._reconnected,
            closed_cb=self._ended,
            max_reconnect_attempts=-1,
            pending_size=_PENDING_BYTES,
            connect_timeout=2,
            ping_interval=_PING_S,
            **options,
        )
        try:
            async with asyncio.timeout(timeout_s):
                await self._rejection.connect(connecting, self.name)
                await self.client.subscribe(f"{self._replies.inbox}.*", cb=self._replies.received)
        except (TimeoutError, OSError, NatsError) as error:
            await self.close()
            reason = self._rejection.refusal or str(error) or self._last_failure or "no answer"
            raise Unreachable(f"{self._place}: {reason}") from error
        except NotPermitted:
            await self.close()
            raise
        self.availability.opened()

    async def close(self) -> None:
        """Send pending messages and disconnect; waiting callers get Unreachable."""
        self._end(Unreachable("the bus is closed"))
        with self._warnings_of_closing():
            if self.client.is_connected:
                await self.client.flush(timeout=1)
        # A server that does not answer the flush must not keep the client reconnecting for ever.
        with self._warnings_of_closing():
            async with asyncio.timeout(2.0):
                await self.client.close()
        self.client.drop_socket()

    @contextmanager
    def _warnings_of_closing(self) -> Iterator[None]:
        try:
            yield
        except (TimeoutError, NatsError, OSError) as error:
            _log.warning("closing %s: %s", self.name, error)

    def _end(self, error: Unreachable) -> None:
        self.availability.end()
        self._replies.fail_all(error)

    async def send(
        self,
        subject: str,
        body: bytes,
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send `body` to `subject`, with a `reply` subject and `headers` if given.

        Raises Unreachable, PayloadTooLarge, SubjectTooLong.
        """
        if len(subject) + len(reply) > MAX_SUBJECTS:
            raise SubjectTooLong(subject)
        try:
            await self.client.publish(subject, body, reply, dict(headers) if headers else None)
        except MaxPayloadError as error:
            raise PayloadTooLarge(subject, len(body), self.client.max_payload) from error
        except NatsError as error:
            raise Unreachable(f"{subject}: {error}") from error

    def send_soon(self, subject: str, body: bytes) -> None:
        """Send a message from code that cannot await; a failure is logged."""
        task = asyncio.get_running_loop().create_task(self.send(subject, body))
        self._sending.add(task)

        def sent(task: asyncio.Task[None]) -> None:
            self._sending.discard(task)
            if not task.cancelled() and task.exception() is not None:
                _log.warning("not sent: %s", task.exception())

        task.add_done_callback(sent)

    @property
    def traffic(self) -> Traffic:
        """The counts of this connection; nats-py counts messages and reconnects."""
        counts = self.client.stats
        self._traffic.sent, self._traffic.received = counts["out_msgs"], counts["in_msgs"]
        self._traffic.reconnects = counts["reconnects"]
        return self._traffic

    async def settled(self) -> None:
        """Return once the server has received everything sent so far, or is away."""

        async def flush_twice() -> None:
            # nats-py's first PING overtakes the pending messages; they are sent by its PONG.
            await self.client.flush(timeout=2)
            await self.client.flush(timeout=2)

        try:
            # Shielded, because a PONG to a cancelled flush breaks nats-py's reading for good.
            await asyncio.shield(flush_twice())
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
        """Send `body` to `subject`, with `headers`, and return the first reply.

        `timeout_s` None means `attempt_s`. Raises NoAnswer when nobody is subscribed to the
        subject, NoReply after the time-out, Unreachable, NotPermitted, PayloadTooLarge.
        """
        if not self.availability.is_up:
            raise Unreachable(self._place)
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        token = self.expect(subject, *first_of(future))
        try:
            async with asyncio.timeout(self.attempt_s if timeout_s is None else timeout_s):
                await self.send(subject, body, reply=token, headers=headers)
                message = await future
        except TimeoutError as error:
            raise NoReply(subject) from error
        finally:
            self.forget(token)
        if message.headers and message.headers.get("Status") == "503":
            raise NoAnswer(subject)
        return message

    async def call(self, subject: str, request: Mapping[str, Any]) -> Any:
        """Call JetStream's API, retrying until it answers, and return the decoded answer.

        Raises ServerRefused, NoAnswer, Unreachable.
        """
        body = json.dumps(request).encode() if request else b""

        async def once() -> Any:
            answer = json.loads((await self.request(subject, body)).data)
            if "error" in answer:
                refused = ServerRefused.of(subject, answer["error"])
                raise Unreachable(str(refused)) if refused.is_passing else refused
            return answer

        return await self.patiently(once)

    def managing(self, request: str) -> str:
        """Return the subject on which this connection makes a `request` about a stream."""
        has_streams = account_of(self.name) == LOG or self.settings.nats_seed() is None
        return f"{JETSTREAM}.{request}" if has_streams else managed(request)

    async def patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat `attempt` while the server is away, for up to `patience_s`, and return its result.

        Raises the last error of `attempt`.
        """
        loop = asyncio.get_running_loop()
        failing_since_s = loop.time()
        until_s = failing_since_s + self.patience_s
        pause_s = 0.02
        while True:
            try:
                return await attempt()
            except (Unreachable, NoAnswer):
                if loop.time() + pause_s >= until_s or self.availability.closed.is_set():
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 1.0)
            failing_since_s = await self.leave_if_silent(failing_since_s)
            await self.availability.wait_up(until_s - loop.time())

    async def leave_if_silent(self, since_s: float) -> float:
        """Connect to another server of the cluster when this one fails a call since `since_s`.

        A server that is cut off from the others takes connections, and stores nothing.
        Return the time since which the server of now fails the call.
        """
        now_s = asyncio.get_running_loop().time()
        # Another caller may have left the server that failed this one.
        since_s = max(since_s, self.availability.connected_s)
        if not self.availability.is_up or now_s < since_s + _SILENT_S:
            return since_s if self.availability.is_up else now_s
        if len(self.client.servers) > 1:
            _log.warning("%s: no answer for %.0f s, trying another server", self.name, _SILENT_S)
            await self.leave_server()
        return now_s

    async def leave_server(self) -> None:
        """Connect to another server of the cluster."""
        self.availability.lost()
        await self.client.force_reconnect()

    async def subscribe(self, subject: str, receive: Receive, *, queue: str = "") -> Subscription:
        """Call `receive` with each message on `subject`, as a member of the `queue` group if given.

        Raises Unreachable.
        """

        async def received(message: Msg) -> None:
            if (handling := receive(message)) is not None:
                await handling

        try:
            return await self.client.subscribe(subject, queue, cb=received)
        except NatsError as error:
            raise Unreachable(f"{subject}: {error}") from error

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription; has no effect on a closed connection."""
        try:
            await subscription.unsubscribe()
        except NatsError:
            _log.debug("subscription %s is gone already", subscription.subject)

    async def drain(self, subscription: Subscription) -> None:
        """End a subscription once what the server sent to it is handled, or after some seconds."""
        untyped: Any = subscription  # nats-py (2.16) gives `drain` no types
        # Not cancelled at the end of the wait: see `settled`.
        draining = asyncio.gather(untyped.drain(), return_exceptions=True)
        await asyncio.wait([draining], timeout=_ATTEMPT_S)
        await self.settled()

    async def listen(self, subject: str, receive: Receive, *, queue: str = "") -> Subscription:
        """Subscribe like `subscribe`, and return once the server has the subscription.

        `subject`, `receive` and `queue` are as there. Raises Unreachable, NotPermitted.
        """
        subscription = await self.subscribe(subject, receive, queue=queue)
        await self.settled()
        if self._replies.is_denied(subject):
            await self.unsubscribe(subscription)
            raise NotPermitted(subject)
        return subscription

    def expect(
        self, subject: str, receive: Callable[[Msg], None], fail: Callable[[BusError], None]
    ) -> str:
        """Return a new reply subject for a request to `subject`.

        Replies are passed to `receive`, a failure of the connection or request to `fail`, until
        `forget`.
        """
        token = self._replies.enter(subject, receive, fail)
        if self.availability.closed.is_set():
            fail(Unreachable("the bus is closed"))
        return token

    def forget(self, token: str) -> None:
        """Stop expecting replies on a reply subject."""
        self._replies.leave(token)

    async def _failed(self, error: Exception) -> None:
        text = redact(str(error) or type(error).__name__)
        is_repeated = text == self._last_failure
        self._last_failure = text
        is_known = self._replies.note_denial(text.lower()) or is_repeated
        _log.log(logging.DEBUG if is_known else logging.WARNING, "%s: %s", self.name, text)
        self._rejection.note(text.lower())
        if self._rejection.is_revoked and self._closing is None:
            self._lose(KeyRevoked(self.name))
            # In a task of its own: it cancels the one that reconnects and that reports this error.
            self._closing = asyncio.get_running_loop().create_task(self.close())

    async def _disconnected(self) -> None:
        self.availability.lost()
        self._replies.fail_all(Unreachable(self._place))

    async def _reconnected(self) -> None:
        _log.info("%s: connected again", self.name)
        self._last_failure = ""
        self._rejection.accepted()
        self.availability.reconnected()

    async def _ended(self) -> None:
        if not self.availability.closed.is_set():
            last_error = self.client.last_error
            reason = "" if last_error is None else f": {redact(str(last_error))}"
            self._lose(Unreachable(f"the server ended the connection for good{reason}"))

    def _lose(self, cause: BusError) -> None:
        _log.error("%s: %s", self.name, cause)
        self.end_cause = cause
        self._end(Unreachable(self._place))
