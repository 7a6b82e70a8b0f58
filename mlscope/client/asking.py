"""One command over the bus: asked, answered, refusals and silences turned into errors."""

from typing import Any, TypeVar

from mlscope.bus.bus import Bus
from mlscope.bus.errors import NoAnswer, NotPermitted, Unreachable
from mlscope.client.errors import CommandRefused, Denied, EvaluationRefused, NotAnswering
from schemas.codec import encode_body, parse, unpack
from schemas.message import Command, Message
from schemas.request import Evaluate, Refused
from schemas.subjects import command_subject

M = TypeVar("M", bound=Message)


async def ask(bus: Bus, command: Command, *, timeout_s: float = 10.0) -> dict[str, Any]:
    """Return the answer to a command as a map.

    Raises CommandRefused (EvaluationRefused for `evaluate`), NotAnswering, Denied.
    """
    try:
        body = await bus.ask(
            command_subject(type(command)), encode_body(command), timeout_s=timeout_s
        )
    except NotPermitted as error:
        raise Denied(command.verb, str(error)) from error
    except (NoAnswer, Unreachable) as error:
        raise NotAnswering(command.verb, str(error) or "no answer") from error
    answer = unpack(body)
    if answer.get("accepted") is False:
        refused = parse(Refused, answer)
        raise _refusal_of(command)(refused)
    return answer


async def ask_for(bus: Bus, command: Command, answer: type[M], *, timeout_s: float = 10.0) -> M:
    """Return the answer to a command as a message. Raises as `ask`, and MalformedMessage."""
    return parse(answer, await ask(bus, command, timeout_s=timeout_s))


def _refusal_of(command: Command) -> type[CommandRefused]:
    return EvaluationRefused if isinstance(command, Evaluate) else CommandRefused
