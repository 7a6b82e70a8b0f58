"""`mlscope watch`: follows an evaluation until it ends."""

import argparse
import dataclasses
import json
import sys

from cli import exits
from cli.inputs.connection import client_of
from cli.printing.progress import ProgressLine
from cli.printing.results import exit_code_of, print_failure
from mlscope.client import AsyncEvaluation, Progress
from mlscope.evaluation.status import is_unmatched
from schemas.status import EvaluationStatus


class EventPrinter:
    """Prints what happens to an evaluation on stdout, a line of JSON for each event."""

    def __init__(self) -> None:
        """Begin with nothing printed."""
        self._status: EvaluationStatus | None = None

    def show(self, progress: Progress) -> None:
        """Print `progress`, unless nothing happened and its status is the one last printed."""
        if not progress.happened and progress.status == self._status:
            return
        self._status = progress.status
        event = {
            "happened": progress.happened,
            "status": progress.status.model_dump(mode="json", exclude={"request", "subject"}),
            "readings": {
                run: dataclasses.asdict(reading) for run, reading in progress.readings.items()
            },
        }
        print(json.dumps(event, separators=(",", ":")), flush=True)


async def watch(arguments: argparse.Namespace) -> int:
    """Follow an evaluation until it ends; Ctrl-C only stops watching."""
    async with client_of(arguments) as client:
        evaluation = AsyncEvaluation(client, arguments.evaluation, "")
        with ProgressLine(sys.stderr, quiet=arguments.events) as line:
            status = await evaluation.follow(EventPrinter().show if arguments.events else line.show)
    if status.state == "analyzed":
        print(f"{status.evaluation} analyzed  {status.address}", file=sys.stderr)
        return exit_code_of(status, is_strict=False)
    print_failure(status)
    return exits.NO_AGENT if is_unmatched(status) else exits.FAILED
