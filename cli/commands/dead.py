"""`mlscope dead`: the messages that services could not process, and why; again, or never again."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import cast

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import operator_settings
from cli.printing.output import Rows, write_rows
from mlscope.bus.access.permissions import OPERATOR
from mlscope.bus.records import Recorded
from mlscope.settings import Settings
from mlscope.texts.printable import printable
from schemas.dead import LetterBuried
from schemas.subjects import facts_of

_PLACE = ("service", "subject", "stream", "sequence", "deliveries", "retries")
_COLUMNS = ("number", "at", *_PLACE, "reason")
_SHOWN_BYTES = 4096
_RETRY, _DROP, _ALL = "retry", "drop", "all"


async def dead(arguments: argparse.Namespace) -> int:
    """List the dead letters, oldest first, show one, or settle some.

    Raises Misused for a letter there is not, and for words that are no command.
    """
    from mlscope.bus.nats import connect

    action, number = _action_and_number(arguments)
    settings = operator_settings(arguments.data)
    async with connect(settings, OPERATOR) as bus:
        letters = await bus.read(facts_of(LetterBuried))
    if number.isdecimal():
        letters = [letter for letter in letters if letter.sequence == int(number)]
        if not letters:
            raise Misused(f"no dead letter {number}; `mlscope dead` lists them")
    if action:
        return await _settle(settings, action, letters)
    rows: list[tuple[object, ...]] = []
    for letter in letters:
        at = datetime.fromtimestamp(letter.envelope.time_ns / 1e9, UTC)
        fact = cast("LetterBuried", letter.fact)
        place = attrgetter(*_PLACE)(fact)
        rows.append((letter.sequence, at.isoformat(timespec="seconds"), *place, fact.reason))
    write_rows(Rows(_COLUMNS, tuple(rows)), arguments.output)
    if number and arguments.output == "table":
        print(f"\n{cast('LetterBuried', letters[0].fact).body[:_SHOWN_BYTES]!r}")
    return exits.OK


def _action_and_number(arguments: argparse.Namespace) -> tuple[str, str]:
    """Return what to do with letters, empty to show them, and the number of one, `all` or empty."""
    action, which = arguments.action, arguments.which
    is_settling = action in (_RETRY, _DROP)
    if bool(which) != is_settling:
        raise Misused("write `mlscope dead`, `dead N`, `dead retry N|all` or `dead drop N|all`")
    number = which if is_settling else action
    if number.isdecimal() or number == (_ALL if is_settling else ""):
        return action if is_settling else "", number
    raise Misused(f"{number!r} is not the number of a letter; `mlscope dead` lists them")


async def _settle(settings: Settings, action: str, letters: Sequence[Recorded]) -> int:
    """Retry or drop `letters`, oldest first; FAILED when a message was not handled."""
    from mlscope.bus.errors import BusError
    from mlscope.bus.nats.connection import Connection
    from mlscope.bus.nats.letters import Letters

    connection = Connection(settings, OPERATOR, patience_s=30.0)
    await connection.open(30.0)
    failed = 0
    try:
        for letter in letters:
            number, fact = letter.sequence, cast("LetterBuried", letter.fact)
            try:
                if action == _DROP:
                    await Letters(connection).drop(number)
                else:
                    await Letters(connection).retry(number, fact)
                outcome = "dropped" if action == _DROP else f"handled by {fact.service}"
                print(printable(f"{number}: {outcome}, {fact.subject}"))
            except BusError as error:
                failed += 1
                print(printable(f"{number}: {error}"), file=sys.stderr)
    finally:
        await connection.close()
    return exits.FAILED if failed else exits.OK
