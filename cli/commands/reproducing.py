"""`mlscope export` and `mlscope reproduce`: an evaluation as a file, and the same elsewhere."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from cli import exits
from cli.commands import tracing
from cli.commands.asking import client_of
from cli.failures import Misused
from cli.output import Rows, width_of, write_json, write_rows
from cli.progress import ProgressLine
from cli.request import manifest_in
from mlscope.client import AsyncClient
from mlscope.counts import many
from mlscope.reproducing.differences import (
    SAME,
    Difference,
    differences,
    verdict_on_predictions,
)
from mlscope.reproducing.logs import (
    Altered,
    NotMeasured,
    checked,
    reference_log,
    request_again,
    written,
)
from schemas.codec import parse
from schemas.errors import MalformedMessage
from schemas.reference import ReferenceLog

_COLUMNS = ("aspect", "subject", "name", "before", "now", "note")
_TABLES = ("conditions", "latency", "throughput", "accuracy")


def export(arguments: argparse.Namespace) -> int:
    """Write an evaluation's reference log, or its spans in another tool's format."""
    if arguments.format != "log":
        return tracing.export(arguments)
    return asyncio.run(_export(arguments))


async def _export(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        log = await log_of(client, arguments.evaluation)
    text = written(log)
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        arguments.out.write_text(text, "utf-8")
        print(f"{arguments.out}: {many(len(log.runs), 'run')}; elsewhere: mlscope reproduce …")
    return exits.OK


async def log_of(client: AsyncClient, evaluation: str) -> ReferenceLog:
    """Return an evaluation's reference log. Raises Misused, CommandRefused."""
    status = await client.status(evaluation)
    try:
        tables = await client.tables(evaluation, *(t for t in _TABLES if t in status.tables))
        agents = (await client.catalog("agent")).agents
        return reference_log(
            status,
            [each.announcement for each in agents],
            {each.name: each.rows() for each in tables.values()},
            (await client.predictions(evaluation)).predictions,
        )
    except NotMeasured as error:
        raise Misused(str(error)) from error


def reproduce(arguments: argparse.Namespace) -> int:
    """Run a reference log again and print what differs."""
    return asyncio.run(_reproduce(arguments, read_log(arguments.file)))


def read_log(path: Path) -> ReferenceLog:
    """Return the reference log in a file. Raises Misused."""
    try:
        return checked(parse(ReferenceLog, manifest_in(path)))
    except (MalformedMessage, Altered) as error:
        raise Misused(f"{path}: {error}") from None


async def _reproduce(arguments: argparse.Namespace, before: ReferenceLog) -> int:
    wait = {} if arguments.wait is None else {"wait_s": arguments.wait}
    async with client_of(arguments) as client:
        evaluation = await client.evaluate(request_again(before, arguments.agent, **wait))
        with ProgressLine(sys.stderr, quiet=arguments.quiet) as line:
            line.note(f"evaluation {evaluation.id}  {evaluation.address}")
            status = await evaluation.follow(line.show)
        if status.state != "analyzed":
            print(f"{status.evaluation} {status.state}: {status.cause}", file=sys.stderr)
            return exits.FAILED
        now = await log_of(client, evaluation.id)
    if arguments.out is not None:
        arguments.out.write_text(written(now), "utf-8")
    found = differences(before, now)
    write_differences(arguments.output, before, now, found)
    is_same = verdict_on_predictions(found) == SAME
    return exits.GATE if arguments.strict and not is_same else exits.OK


def rows_of(found: Sequence[Difference], *, with_units: bool, folds: bool = False) -> Rows:
    """Return differences as rows; programs get figures as they are, people with their units."""
    rows = []
    for each in found:
        values = (each.told if with_units else None) or (each.before, each.now)
        rows.append((each.aspect, each.subject, each.name, *values, each.note))
    return Rows(_COLUMNS, tuple(rows), folds=folds)


def write_differences(
    form: str, before: ReferenceLog, now: ReferenceLog, found: Sequence[Difference]
) -> None:
    """Print what differs and what that says of the predictions; a terminal cuts none of it."""
    verdict = verdict_on_predictions(found)
    if form == "json":
        told = rows_of(found, with_units=False).maps()
        write_json(
            {"before": before.evaluation, "now": now.evaluation, "differences": told,
             "predictions": verdict, "predictions_are_same": verdict == SAME}
        )  # fmt: skip
        return
    folds = width_of(sys.stdout) > 0
    write_rows(rows_of(found, with_units=form == "table", folds=folds), form)
    if form == "table":
        print(f"{now.evaluation} repeats {before.evaluation}: predictions are {verdict}.")
