"""`mlscope reproduce`: repeats an evaluation from its reference log and prints the differences."""

import argparse
import sys
from collections.abc import Sequence

from cli import exits
from cli.inputs.connection import client_of
from cli.inputs.pages import browser_address
from cli.printing.output import Rows, width_of, write_json, write_rows
from cli.printing.progress import ProgressLine
from cli.printing.results import print_failure
from cli.reference_logs import log_of, read_log
from mlscope.evaluation.status import is_unmatched
from mlscope.reproducing.difference import SAME, Difference, verdict_on_predictions
from mlscope.reproducing.differences import differences
from mlscope.reproducing.logs import file_text, request_again
from schemas.reference import ReferenceLog

_COLUMNS = ("aspect", "subject", "name", "before", "now", "note")


async def reproduce(arguments: argparse.Namespace) -> int:
    """Run a reference log again and print what differs."""
    before = read_log(arguments.file)
    wait = {} if arguments.wait is None else {"wait_s": arguments.wait}
    async with client_of(arguments) as client:
        evaluation = await client.evaluate(request_again(before, arguments.agent, **wait))
        with ProgressLine(sys.stderr, quiet=arguments.quiet) as line:
            address = browser_address(evaluation.address, arguments)
            line.note(f"evaluation {evaluation.id}  {address}")
            status = await evaluation.follow(line.show)
        if status.state != "analyzed":
            print_failure(status)
            return exits.NO_AGENT if is_unmatched(status) else exits.FAILED
        now = await log_of(client, evaluation.id)
    if arguments.out is not None:
        arguments.out.write_text(file_text(now), "utf-8")
    changes = differences(before, now)
    write_differences(arguments.output, before, now, changes)
    is_same = verdict_on_predictions(changes) == SAME
    return exits.GATE if arguments.strict and not is_same else exits.OK


def write_differences(
    form: str, before: ReferenceLog, now: ReferenceLog, changes: Sequence[Difference]
) -> None:
    """Print the differences and the verdict on the predictions.

    `form`: table, json or csv; `before`, `now`: the two logs; `changes`: their differences. Tables
    show figures with units, JSON and CSV plain ones. A terminal shows long texts completely.
    """
    verdict = verdict_on_predictions(changes)
    rows = []
    for change in changes:
        values = (change.with_units if form == "table" else None) or (change.before, change.now)
        rows.append((change.aspect, change.subject, change.name, *values, change.note))
    table = Rows(_COLUMNS, tuple(rows), folds=width_of(sys.stdout) > 0)
    if form == "json":
        write_json(
            {
                "before": before.evaluation,
                "now": now.evaluation,
                "differences": table.maps(),
                "predictions": verdict,
                "predictions_are_same": verdict == SAME,
            }
        )
        return
    write_rows(table, form)
    if form == "table":
        print(f"{now.evaluation} repeats {before.evaluation}: predictions are {verdict}.")
