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


async def watch(arguments: argparse.Namespace) -> int:
    """Follow an evaluation until it ends; Ctrl-C only stops watching."""

    def print_event(progress: Progress) -> None:
        event = {
            "happened": progress.happened,
            "status": progress.status.model_dump(mode="json", exclude={"request", "subject"}),
            "readings": {
                run: dataclasses.asdict(reading) for run, reading in progress.readings.items()
            },
        }
        print(json.dumps(event, separators=(",", ":")), flush=True)

    async with client_of(arguments) as client:
        evaluation = AsyncEvaluation(client, arguments.evaluation, "")
        with ProgressLine(sys.stderr, quiet=arguments.events) as line:
            status = await evaluation.follow(print_event if arguments.events else line.show)
    if status.state == "analyzed":
        print(f"{status.evaluation} analyzed  {status.address}", file=sys.stderr)
        return exit_code_of(status, is_strict=False)
    print_failure(status)
    return exits.NO_AGENT if is_unmatched(status) else exits.FAILED
