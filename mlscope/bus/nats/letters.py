"""Dead letters: an operator has their messages handled again, or drops them.

An operator sends an order to the service that buried a message. The service reads the stored
message anew and handles it like any delivery; what it would tell the server of the delivery
(done, later, never) it answers to the operator.
"""

import asyncio
import json
from dataclasses import asdict, dataclass, replace

from mlscope.bus.errors import BusError, NoAnswer, NotRetried
from mlscope.bus.nats.connection import Connection, Msg
from mlscope.bus.nats.log import StoredMessage, as_stored
from mlscope.bus.streams import Durable, durable_of
from schemas.dead import LetterBuried
from schemas.subjects import retry_subject

FAILED = b"-ERR "
"""What an answer begins with when an order cannot be carried out; the reason follows."""

_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class RetryOrder:
    """Which message to handle again: its sequence in the durable's stream.

    `tries` counts its deliveries by this order, `retries` the orders so far with this one.
    """

    sequence: int
    tries: int = 1
    retries: int = 1

    def encode(self) -> bytes:
        """Return the order as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, body: bytes) -> "RetryOrder":
        """Read an order. Raises ValueError."""
        fields = json.loads(body)
        if not isinstance(fields, dict) or fields.keys() != cls.__dataclass_fields__.keys():
            raise ValueError("an order has a sequence, tries and retries")
        if any(type(value) is not int or value < 1 for value in fields.values()):
            raise ValueError("sequence, tries and retries are whole numbers above 0")
        return cls(**fields)


async def stored_message(
    connection: Connection, stream: str, sequence: int
) -> StoredMessage | None:
    """Return the message of `stream` with a `sequence`, read over `connection`; None if gone.

    Raises NoAnswer, NotPermitted, Unreachable.
    """
    request = json.dumps({"seq": sequence}).encode()
    answer = await connection.request(f"$JS.API.DIRECT.GET.{stream}", request)
    return None if (answer.headers or {}).get("Status") == "404" else as_stored(answer)


class Letters:
    """The dead letters, as an operator's connection settles them."""

    def __init__(self, connection: Connection) -> None:
        """Use an open connection with the operator's key."""
        self._connection = connection

    async def drop(self, number: int) -> None:
        """Remove the letter with a `number`, its sequence. Raises BusError."""
        api = self._connection.managing("STREAM.MSG.DELETE.DEAD")
        await self._connection.call(api, {"seq": number})

    async def retry(self, number: int, letter: LetterBuried) -> None:
        """Have the message of a `letter` handled again; its `number` is dropped once it is.

        A message that fails again is a new letter, which counts one more retry, and the old one is
        dropped. Raises NotRetried in this and every other case but success, and BusError.
        """
        durable = durable_of(letter.service, letter.stream)
        if durable is None and letter.stream:
            raise NotRetried(
                f"{letter.service} folds it when it starts: restart it, then drop this"
            )
        if durable is None:
            raise NotRetried("a request is not kept, and who sent it was answered: drop the letter")
        order = RetryOrder(letter.sequence, retries=letter.retries + 1)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                buried = await self._settled(durable, order)
        except TimeoutError as error:
            raise NotRetried(f"{letter.service} is still at it: see its log") from error
        await self.drop(number)
        if buried:
            raise NotRetried(f"{letter.service} gave it up again: {buried}")

    async def _settled(self, durable: Durable, order: RetryOrder) -> str:
        """Return '' once the message was handled, else why the service gave it up."""
        while True:
            answer = await self._answer(durable, order)
            kind, _, text = answer.partition(b" ")
            if kind == b"+ACK":
                return ""
            if kind == b"+TERM":
                return text.decode(errors="replace") or "no reason"
            if kind != b"-NAK":
                raise NotRetried(text.decode(errors="replace"))
            delay_ns = json.loads(text)["delay"] if text else 0
            await asyncio.sleep(delay_ns / 1e9)
            order = replace(order, tries=order.tries + 1)

    async def _answer(self, durable: Durable, order: RetryOrder) -> bytes:
        """Send the order and return its outcome; notes of progress in between are not one."""
        subject = retry_subject(durable.name)
        answers: asyncio.Queue[Msg | BusError] = asyncio.Queue()
        token = self._connection.expect(subject, answers.put_nowait, answers.put_nowait)
        try:
            await self._connection.send(subject, order.encode(), reply=token)
            while True:
                answer = await answers.get()
                if isinstance(answer, BusError):
                    raise answer
                if (answer.headers or {}).get("Status") == "503":
                    raise NoAnswer(subject)
                if bytes(answer.data) != b"+WPI":
                    return bytes(answer.data)
        finally:
            self._connection.forget(token)
