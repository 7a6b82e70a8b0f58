"""`mlscope show` and `tables`: one evaluation, or one name of the catalog, whole."""

import argparse
import asyncio
import sys

import yaml

from cli import exits
from cli.commands.asking import as_called, client_of, failures_in, write_tables
from cli.commands.listing import KINDS, catalog_rows, labelled, when
from cli.commands.predictions import write_predictions
from cli.failures import Misused
from cli.output import Rows, rows_of, write_json, write_rows
from mlscope.client import AsyncClient, ClientError, CommandRefused
from mlscope.client.brief import FAILURES
from mlscope.manifests.constraints import constraint_of, satisfies
from mlscope.manifests.errors import BadConstraint
from schemas.analysis import Table
from schemas.status import Catalog, EvaluationStatus


def show(arguments: argparse.Namespace) -> int:
    """Show an evaluation's runs, or everything the catalog says of a name."""
    return asyncio.run(_show(arguments))


async def _show(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        if arguments.predictions:
            await write_predictions(client, arguments.name, arguments.of_run, arguments.output)
            return exits.OK
        status = await _status_or_none(client, arguments.name)
        if status is not None:
            failures = await _failures(client, status)
            _print_evaluation(status, arguments.output, failures)
            return exits.OK
        catalog = await client.catalog()
    found = _found_in(catalog, arguments.name)
    if found == Catalog():
        raise Misused(f"nothing is called {arguments.name}; `mlscope ls` lists what there is")
    _print_found(found, arguments.output)
    return exits.OK


def _print_found(found: Catalog, form: str) -> None:
    """Print all that is known: as YAML to people, as rows of `ls` in CSV."""
    kinds = [kind for kind in KINDS if getattr(found, kind)]
    maps = [each.model_dump(mode="json") for kind in kinds for each in getattr(found, kind)]
    if form == "json":
        write_json(maps)
    elif form == "table":
        print(yaml.safe_dump_all(maps, sort_keys=False, allow_unicode=True, width=80), end="")
    elif len(kinds) == 1:
        write_rows(catalog_rows(found, kinds[0]), form)
    else:
        raise Misused(f"CSV holds one kind, there are: {', '.join(kinds)}; -o json holds all")


async def _status_or_none(client: AsyncClient, name: str) -> EvaluationStatus | None:
    try:
        return await client.status(name)
    except CommandRefused:
        return None


def _found_in(catalog: Catalog, name: str) -> Catalog:
    """Return what has this name, or `NAME:CONSTRAINT` and a version that fits. Raises Misused."""
    agents = tuple(each for each in catalog.agents if each.announcement.agent == name)
    wanted, _, version = name.partition(":")
    try:
        fitting = constraint_of(version)
    except BadConstraint as error:
        raise Misused(f"{name}: {error}") from None
    named = {
        kind: tuple(
            each
            for each in getattr(catalog, kind)
            if each.name == wanted and satisfies(each.version, fitting)
        )
        for kind in KINDS
        if kind != "agents"
    }
    return Catalog(agents=agents, **named)


async def _failures(client: AsyncClient, status: EvaluationStatus) -> list[Table]:
    """Return why queries of an evaluation failed; nothing while the tables cannot be had."""
    if FAILURES not in status.tables:
        return []
    try:
        return failures_in(await client.tables(status.evaluation, FAILURES))
    except ClientError as error:
        print(f"why queries failed: {error}", file=sys.stderr)
        return []


def _print_evaluation(status: EvaluationStatus, form: str, failures: list[Table]) -> None:
    if form == "json":
        maps = {each.name: Rows.of_table(each).maps() for each in failures}
        write_json(status.model_dump(mode="json") | maps)
        return
    if form == "table":
        for name, value in _told(status):
            print(f"{name:<12} {value}")
        print()
    columns = (
        "run",
        "scenario",
        "batch_size",
        "level",
        "agent",
        "attempt",
        "state",
        "answered",
        "failed_queries",
        "spans",
        "cause",
    )
    records = [run.model_dump(mode="json") for run in status.runs]
    write_rows(rows_of(records, columns), form)
    if form == "table" and failures:
        print()
        write_tables(failures, form)


def _told(status: EvaluationStatus) -> list[tuple[str, str]]:
    pairs = [
        ("evaluation", status.evaluation),
        ("state", status.state),
        ("model", status.model),
        ("framework", f"{status.framework} {status.device}".strip()),
        ("labels", labelled(status.labels)),
        ("requested", when(status.requested_ns)),
        ("cause", status.cause),
        ("tables", " ".join(status.tables)),
        ("address", status.address),
    ]
    pairs += [(f"not {each.agent}", each.reason) for each in status.refusals]
    return [(name, value) for name, value in pairs if value]


def tables(arguments: argparse.Namespace) -> int:
    """Print an evaluation's tables: all, or those named."""
    return asyncio.run(_tables(arguments))


async def _tables(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        names = as_called(arguments.names)
        found = await client.tables(arguments.evaluation, *names)
        wanted = [found[name] for name in names] or list(found.values())
    if arguments.output == "json":
        write_json({each.name: Rows.of_table(each.table).maps() for each in wanted})
    else:
        write_tables([each.table for each in wanted], arguments.output)
    return exits.OK
