"""Commands of the cluster's user and of people: answered as far as the asker's role allows."""

from collections.abc import Iterable

from mlscope.bus.bus import Answerer, Bus
from mlscope.bus.envelopes import refusal
from mlscope.bus.records import ReceivedCommand
from schemas.message import Command
from schemas.people import VERBS, Asker
from schemas.subjects import asked_by_people, asker_of, command_subject


async def answer_all(bus: Bus, command: type[Command], answerer: Answerer, *, queue: str) -> None:
    """Answer each `command` over `bus` by `answerer`, and refuse what its asker may not send.

    `queue` is the queue group, as in `Bus.answer`.
    """

    async def permitted(received: ReceivedCommand) -> bytes | None:
        try:
            asker = asker_of(received.subject)
        except ValueError:
            # Only the gateway's key can send such a subject.
            return refusal("forbidden", "nobody has such a name and role", received.body)
        if command.verb in VERBS[asker.role]:
            return await answerer(received)
        return refusal("forbidden", not_allowed(asker, command.verb), received.body)

    for subject in (command_subject(command), asked_by_people(command.verb)):
        await bus.answer(subject, permitted, queue=queue)


def not_allowed(asker: Asker, verb: str) -> str:
    """Return why an `asker` may not send the command with this `verb`, and who may."""
    roles = " or ".join(role for role, verbs in VERBS.items() if verb in verbs)
    return f"{asker.name} is a {asker.role} here; `{verb}` is for the role {roles}"


def endpoints_of(commands: Iterable[type[Command]]) -> dict[str, str]:
    """Return the subjects of `commands` by endpoint, those of people apart."""
    endpoints: dict[str, str] = {}
    for command in commands:
        endpoints[command.verb] = command_subject(command)
        endpoints[f"{command.verb}-people"] = asked_by_people(command.verb)
    return endpoints
