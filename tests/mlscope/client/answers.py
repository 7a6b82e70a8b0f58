"""A service that answers one verb in tests, and keeps what it was asked."""

from collections.abc import Callable
from typing import TypeVar

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from schemas.encoding.codec import decode_body, encode_body
from schemas.message import Command, Message
from schemas.subjects import command_subject

C = TypeVar("C", bound=Command)


async def answering(bus: Bus, kind: type[C], answer: Callable[[C], Message]) -> list[C]:
    """Answer each command of a `kind` over `bus`; return the list that they are kept in."""
    asked: list[C] = []

    async def answered(command: ReceivedCommand) -> bytes:
        asked.append(decode_body(kind, command.body))
        return encode_body(answer(asked[-1]))

    await bus.answer(command_subject(kind), answered, queue=None)
    return asked
