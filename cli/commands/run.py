"""`mlscope run`: evaluates a model and prints the result."""

import argparse
import asyncio
import contextlib
import secrets
import sys
import time

from cli import exits
from cli.inputs.connection import client_of
from cli.inputs.pages import browser_address
from cli.inputs.request import request_from
from cli.printing.progress import LatestReadings, ProgressLine
from cli.printing.results import (
    caveats_of,
    exit_code_of,
    print_failure,
    print_kept_runs,
    print_note,
    print_run_notes,
    table_names,
    write_accepted,
    write_result,
)
from mlscope.client import AsyncClient
from mlscope.client.asking import ask, ask_for, command_of
from mlscope.client.errors import ClientError, CommandRefused, NotAnswering
from mlscope.evaluation.expectation import expected_text
from mlscope.evaluation.run import awaits_count
from mlscope.evaluation.status import awaits_tables, is_unmatched
from mlscope.settings.limits import TABLES_WAIT_S
from schemas.encoding.codec import parse
from schemas.request import Evaluate, Match, ShowTables
from schemas.status import Matched
from schemas.values.identity import keyed_evaluation_id

_EXPECTATION_S = 1.0
"""For how long progress may wait for the expected time."""
_POLL_S = 0.2
"""How often Ctrl-C looks for tables."""


def run(arguments: argparse.Namespace) -> int:
    """Evaluate a model and print the result; Ctrl-C cancels it and prints what was measured."""
    request = request_from(arguments)
    if not request.key:
        # With a key the id is known before the request is sent, so that Ctrl-C can always cancel.
        request = request.model_copy(update={"key": f"cli-{secrets.token_hex(8)}"})
    return asyncio.run(_run(arguments, request))


async def _run(arguments: argparse.Namespace, request: Evaluate) -> int:
    (table,) = table_names([arguments.table])
    async with client_of(arguments) as client:
        latest = LatestReadings()
        try:
            if table:
                await check_table(client, keyed_evaluation_id(request.key), table)
            evaluation = await client.evaluate(request)
            if arguments.detach:
                write_accepted(evaluation, arguments.output)
                return exits.OK
            with ProgressLine(sys.stderr, quiet=arguments.quiet) as line:
                address = browser_address(evaluation.address, arguments)
                line.note(f"evaluation {evaluation.id}  {address}")
                if not arguments.quiet and (expected := await expected_of(client, request)):
                    line.note(f"expected: {expected}")
                status = await evaluation.follow(latest.after(line.show))
        except asyncio.CancelledError:
            running = keyed_evaluation_id(request.key)
            print(
                f"\ncancelling {running} (press Ctrl-C again to leave it running)", file=sys.stderr
            )
            is_analyzed = await cancel_and_show(client, running, arguments.output, table)
            for line_text in latest.lines(running, is_analyzed=is_analyzed):
                print(line_text, file=sys.stderr)
            raise
        print_run_notes(status)
        if status.state != "analyzed":
            print_failure(status)
            return exits.NO_AGENT if is_unmatched(status) else exits.FAILED
        tables = await client.tables(status.evaluation)
    write_result(status, tables, arguments.output, table)
    caveats = caveats_of(tables) if arguments.strict else []
    for caveat in caveats:
        print_note(f"--strict: {caveat}")
    return exit_code_of(status, is_strict=arguments.strict, caveats=caveats)


async def cancel_and_show(client: AsyncClient, evaluation: str, form: str, table: str) -> bool:
    """Cancel an `evaluation` of the `client`'s cluster, and print its tables once they are there.

    `form` and `table` are as for `write_result`. Returns whether there are tables: none without
    answers, or where nobody says soon what was stored of a run that was cut off.
    """
    try:
        await client.cancel(evaluation, "interrupted at the terminal")
    except ClientError as error:
        print(f"not cancelled: {error}", file=sys.stderr)
        return False
    has_tables = False
    with contextlib.suppress(ClientError):
        status = await client.status(evaluation)
        give_up_s = time.monotonic() + TABLES_WAIT_S
        if awaits_tables(status):
            is_counting = any(map(awaits_count, status.runs))
            stored = " once the answers of runs that were cut off are stored" if is_counting else ""
            wait = f"waiting up to {TABLES_WAIT_S:g} s (Ctrl-C: do not wait)"
            print(f"cancelled; its tables follow{stored}; {wait}", file=sys.stderr)
        while awaits_tables(status) and time.monotonic() < give_up_s:
            await asyncio.sleep(_POLL_S)
            status = await client.status(evaluation)
        if status.tables:
            write_result(status, await client.tables(evaluation), form, table)
            has_tables = True
        print_kept_runs(status)
    return has_tables


async def expected_of(client: AsyncClient, request: Evaluate) -> str:
    """Ask the `client`'s cluster how long the runs of a `request` will take.

    It is '' where no earlier run tells, or the cluster does not answer within a second.
    """
    try:
        command = parse(Match, request.model_dump(mode="json"))
        return expected_text(await ask_for(client.bus, command, Matched, timeout_s=_EXPECTATION_S))
    except ClientError:
        return ""


async def check_table(client: AsyncClient, evaluation: str, table: str) -> None:
    """Ask the `client`'s cluster for a `table` of an `evaluation` that has none yet.

    Raises CommandRefused for the table's name. Nothing is raised where the analyzer does not
    answer: it is asked again when all is measured.
    """
    try:
        fields = {"evaluation": evaluation, "tables": (table,), "limit": 1}
        await ask(client.bus, command_of(ShowTables, fields))
    except CommandRefused as error:
        if error.field.startswith("tables"):
            raise
    except NotAnswering:
        return
