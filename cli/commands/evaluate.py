"""`mlscope run`, `watch` and `cancel`."""

import argparse
import asyncio
import dataclasses
import json
import secrets
import sys

from cli import exits
from cli.commands.asking import client_of, result_of
from cli.output import Rows, write_json, write_rows
from cli.progress import ProgressLine
from cli.request import request_from
from mlscope.client import AsyncClient, AsyncEvaluation, Progress
from mlscope.client.errors import ClientError
from schemas.identity import keyed_evaluation_id
from schemas.request import Evaluate
from schemas.status import EvaluationStatus


def run(arguments: argparse.Namespace) -> int:
    """Evaluate a model and print the result; Ctrl-C cancels the evaluation."""
    request = request_from(arguments)
    if not request.key:
        # A key makes the id known before it is asked for, so that Ctrl-C can always cancel.
        request = request.model_copy(update={"key": f"cli-{secrets.token_hex(8)}"})
    return asyncio.run(_run(arguments, request))


async def _run(arguments: argparse.Namespace, request: Evaluate) -> int:
    async with client_of(arguments) as client:
        try:
            evaluation = await client.evaluate(request)
            if arguments.detach:
                _print_accepted(arguments.output, evaluation)
                return exits.OK
            with ProgressLine(sys.stderr, quiet=arguments.quiet) as line:
                line.note(f"evaluation {evaluation.id}  {evaluation.address}")
                status = await evaluation.follow(line.show)
        except asyncio.CancelledError:
            await _cancel_interrupted(client, keyed_evaluation_id(request.key))
            raise
        return await _finish(arguments, client, status)


def _print_accepted(form: str, evaluation: AsyncEvaluation) -> None:
    accepted = {"evaluation": evaluation.id, "address": evaluation.address}
    if form == "json":
        write_json(accepted)
    elif form == "csv":
        write_rows(Rows(tuple(accepted), (tuple(accepted.values()),)), form)
    else:
        print(evaluation.id)
        print(f"{evaluation.address}  mlscope watch {evaluation.id}", file=sys.stderr)


async def _cancel_interrupted(client: AsyncClient, evaluation: str) -> None:
    print(f"\ncancelling {evaluation} (Ctrl-C again leaves it running)", file=sys.stderr)
    try:
        await client.cancel(evaluation, "interrupted at the terminal")
    except ClientError as error:
        print(f"not cancelled: {error}", file=sys.stderr)


async def _finish(
    arguments: argparse.Namespace, client: AsyncClient, status: EvaluationStatus
) -> int:
    """Print the result and say how it ended."""
    for run in status.runs:
        for note in (run.cause, run.level_note, *run.caveats):
            if note and note != status.cause:
                print(f"{run.run} ({run.state}): {note}", file=sys.stderr)
    if status.state != "analyzed":
        _explain_end(status)
        return exits.FAILED
    tables = await client.tables(status.evaluation)
    result_of(status, tables, arguments.output, arguments.table)
    return exit_code_of(status, is_strict=arguments.strict)


def _explain_end(status: EvaluationStatus) -> None:
    print(
        f"{status.evaluation} {status.state}: {status.cause or 'no cause given'}", file=sys.stderr
    )
    for refusal in status.refusals:
        print(f"  {refusal.agent}: {refusal.reason}", file=sys.stderr)


def exit_code_of(status: EvaluationStatus, *, is_strict: bool) -> int:
    """Return how an analyzed evaluation ends: failed runs, then missing batches, then caveats."""
    states = {run.state for run in status.runs}
    if states & {"failed", "interrupted"}:
        return exits.FAILED
    has_caveats = any(run.caveats or run.level_note for run in status.runs)
    if "incomplete" in states or (is_strict and has_caveats):
        return exits.INVALID
    return exits.OK


def watch(arguments: argparse.Namespace) -> int:
    """Follow an evaluation until it ends; Ctrl-C only stops watching."""
    return asyncio.run(_watch(arguments))


async def _watch(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        evaluation = AsyncEvaluation(client, arguments.evaluation, "")
        with ProgressLine(sys.stderr, quiet=arguments.events) as line:
            status = await evaluation.follow(_print_event if arguments.events else line.show)
    if status.state == "analyzed":
        print(f"{status.evaluation} analyzed  {status.address}", file=sys.stderr)
        return exit_code_of(status, is_strict=False)
    _explain_end(status)
    return exits.FAILED


def _print_event(progress: Progress) -> None:
    print(_event_line(progress), flush=True)


def _event_line(progress: Progress) -> str:
    told = {
        "happened": progress.happened,
        "status": progress.status.model_dump(mode="json", exclude={"request", "subject"}),
        "readings": {run: dataclasses.asdict(each) for run, each in progress.readings.items()},
    }
    return json.dumps(told, separators=(",", ":"))


def cancel(arguments: argparse.Namespace) -> int:
    """End an evaluation now; what was measured is kept."""
    return asyncio.run(_cancel(arguments))


async def _cancel(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        await client.cancel(arguments.evaluation, arguments.reason)
    print(f"{arguments.evaluation} cancelled", file=sys.stderr)
    return exits.OK
