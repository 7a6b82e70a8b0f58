"""One command over the bus: asked, answered, refusals and silences turned into errors."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from mlscope.bus.bus import Bus
from mlscope.bus.errors import NoAnswer, NoReply, NotPermitted, Unreachable
from mlscope.client.errors import (
    CommandRefused,
    Denied,
    EvaluationRefused,
    NoBroker,
    NotAnswering,
    OtherVersion,
)
from schemas.analysis import Table, Tables
from schemas.encoding.codec import encode_body, parse, unpack
from schemas.encoding.errors import MalformedMessage
from schemas.message import Command, Message
from schemas.people import ROLES, VERBS
from schemas.request import Evaluate, Refused, ShowTables
from schemas.subjects import command_subject

C = TypeVar("C", bound=Command)
M = TypeVar("M", bound=Message)
_TABLES_S = 60.0


def command_of(kind: type[C], fields: Mapping[str, Any]) -> C:
    """Return a command; a wrong field is refused here as the service would refuse it.

    Raises CommandRefused (EvaluationRefused for `evaluate`).
    """
    try:
        return parse(kind, dict(fields))
    except MalformedMessage as error:
        refused = Refused(
            error="invalid",
            message=str(error),
            field=error.field,
            found=error.found,
            allowed=error.expected,
        )
        raise _refusal_of(kind)(refused) from error


async def ask(bus: Bus, command: Command, *, timeout_s: float = 10.0) -> dict[str, Any]:
    """Send `command` over `bus` and return the answer as a map; wait for up to `timeout_s` for it.

    Raises CommandRefused (EvaluationRefused for `evaluate`), NotAnswering, Denied.
    """
    return answer_in(command, await answer_body(bus, command, timeout_s=timeout_s))


async def answer_body(
    bus: Bus, command: Command, *, timeout_s: float = 10.0, json_text: bool = False
) -> bytes:
    """Send `command` over `bus` and return the answer as it came, which may be a refusal.

    Waits for up to `timeout_s`. With `json_text` it is asked, and so answered, in JSON. Raises
    NotAnswering, Denied.
    """
    # With a manifest of megabytes, it takes a second.
    encoded = partial(encode_body, command, json_text=json_text)
    body = await asyncio.to_thread(encoded) if isinstance(command, Evaluate) else encoded()
    try:
        return await bus.ask(command_subject(type(command)), body, timeout_s=timeout_s)
    except NotPermitted as error:
        raise Denied(command.verb, missing_right(command.verb)) from error
    except (NoAnswer, NoReply) as error:
        reason = "no service answers" if isinstance(error, NoAnswer) else "no answer in time"
        raise NotAnswering(command.verb, reason) from error
    except Unreachable as error:
        raise NoBroker(command.verb, str(error)) from error


def missing_right(verb: str) -> str:
    """Return whose keys may not send the command with this `verb`, whose may, and the way there."""
    may = [role for role in ROLES if verb in VERBS[role]]
    may_not = [role for role in ROLES if role not in may]
    if not may or not may_not:
        return "this key may not do this" + ("; the key of any person may" if may else "")
    lacking, having = (" or ".join(f"{role}'s" for role in roles) for roles in (may_not, may))
    article = "an" if may[0] == "owner" else "a"
    return (
        f"a {lacking} key may not do this, {article} {having} may; "
        "`mlscope people add` on the cluster's machine changes a role"
    )


def answer_in(command: Command, body: bytes) -> dict[str, Any]:
    """Return the answer to `command` in a `body`. Raises CommandRefused, EvaluationRefused."""
    answer = unpack(body)
    if answer.get("accepted") is False:
        refused = parse(Refused, answer)
        raise _refusal_of(type(command))(refused)
    return answer


async def ask_for(bus: Bus, command: Command, answer: type[M], *, timeout_s: float = 10.0) -> M:
    """Send `command` over `bus` and return the answer as a message of the class `answer`.

    Waits for up to `timeout_s`. Raises as `ask`, and OtherVersion.
    """
    return answer_as(answer, command, await ask(bus, command, timeout_s=timeout_s))


def answer_as(answer: type[M], command: Command, fields: Mapping[str, Any]) -> M:
    """Return the answer to `command`, a map `fields`, as an `answer`. Raises OtherVersion."""
    try:
        return parse(answer, dict(fields))
    except MalformedMessage as error:
        raise OtherVersion(command.verb, str(error)) from error


async def whole_tables(bus: Bus, evaluation: str, names: Sequence[str] = ()) -> Tables:
    """Ask over `bus` for tables of `evaluation` with every row, however many answers that takes.

    `names` are those of the tables; without names it is all of them. Raises as `ask_for`.
    """
    command = command_of(ShowTables, {"evaluation": evaluation, "tables": tuple(names)})
    first = await ask_for(bus, command, Tables, timeout_s=_TABLES_S)
    tables: list[Table] = []
    for table in first.tables:
        rows, caveats = list(table.rows), table.caveats
        total = first.total_rows.get(table.name, len(rows))
        while len(rows) < total:
            page_command = ShowTables(
                evaluation=first.evaluation, tables=(table.name,), offset=len(rows)
            )
            page = await ask_for(bus, page_command, Tables, timeout_s=_TABLES_S)
            page_rows = [row for part in page.tables for row in part.rows]
            if not page_rows:
                caveats += (f"only the first {len(rows)} of {total} rows arrived",)
                break
            rows += page_rows
        tables.append(table.model_copy(update={"rows": tuple(rows), "caveats": caveats}))
    return first.model_copy(update={"tables": tuple(tables)})


def _refusal_of(kind: type[Command]) -> type[CommandRefused]:
    return EvaluationRefused if kind is Evaluate else CommandRefused
