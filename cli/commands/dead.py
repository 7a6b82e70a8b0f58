"""`mlscope dead`: the messages that services could not process, and why."""

import argparse
from datetime import UTC, datetime

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import provisioner_settings
from cli.printing.output import Rows, write_rows
from mlscope.bus.records import Recorded
from schemas.dead import LetterBuried
from schemas.subjects import facts_of

_COLUMNS = ("number", "at", "service", "subject", "stream", "sequence", "deliveries", "reason")
_SHOWN_BYTES = 4096


async def dead(arguments: argparse.Namespace) -> int:
    """List the dead letters, oldest first, or show one. Raises Misused for one there is not."""
    from mlscope.bus.nats import connect

    settings = provisioner_settings(arguments.data)
    async with connect(settings, "provisioner") as bus:
        letters = await bus.read(facts_of(LetterBuried))
    if arguments.sequence is None:
        write_rows(Rows(_COLUMNS, tuple(map(_row, letters))), arguments.output)
        return exits.OK
    chosen = [letter for letter in letters if letter.sequence == arguments.sequence]
    if not chosen:
        raise Misused(f"no dead letter {arguments.sequence}; `mlscope dead` lists those there are")
    fact = chosen[0].fact
    assert isinstance(fact, LetterBuried)
    write_rows(Rows(_COLUMNS, (_row(chosen[0]),)), arguments.output)
    if arguments.output == "table":
        print(f"\n{fact.body[:_SHOWN_BYTES]!r}")
    return exits.OK


def _row(letter: Recorded) -> tuple[object, ...]:
    fact = letter.fact
    assert isinstance(fact, LetterBuried)
    at = datetime.fromtimestamp(letter.envelope.time_ns / 1e9, UTC).isoformat(timespec="seconds")
    place = (fact.service, fact.subject, fact.stream, fact.sequence, fact.deliveries)
    return letter.sequence, at, *place, fact.reason
