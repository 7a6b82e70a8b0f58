"""`mlscope show`: an evaluation, or the catalog's complete entry of a name."""

import argparse
import sys

import yaml

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.printing.catalog import KINDS, catalog_rows, labels_text, time_text
from cli.printing.output import Rows, rows_of, write_json, write_rows
from cli.printing.predictions import write_predictions
from cli.printing.results import failure_tables, write_tables
from mlscope.client import AsyncClient, ClientError, CommandRefused
from mlscope.client.brief import FAILURES
from mlscope.manifests.constraints import constraint_of, satisfies
from mlscope.manifests.errors import BadConstraint
from schemas.analysis import Table
from schemas.status import Catalog, EvaluationStatus

_RUN_COLUMNS = (
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


async def show(arguments: argparse.Namespace) -> int:
    """Show an evaluation's runs, or the catalog's complete entry of a name."""
    async with client_of(arguments) as client:
        if arguments.predictions:
            predictions = await client.predictions(arguments.name, arguments.of_run)
            write_predictions(predictions, arguments.output)
            return exits.OK
        try:
            status = await client.status(arguments.name)
        except CommandRefused:
            catalog = await client.catalog()
        else:
            failures = await _failures(client, status)
            _print_evaluation(status, arguments.output, failures)
            return exits.OK
    entries = _entries_of(catalog, arguments.name)
    if entries == Catalog():
        raise Misused(f"nothing is called {arguments.name}; `mlscope ls` lists what there is")
    _print_entries(entries, arguments.output)
    return exits.OK


def _print_entries(entries: Catalog, form: str) -> None:
    """Print complete entries of the catalog: as YAML by default, as rows of `ls` in CSV."""
    kinds = [kind for kind in KINDS if getattr(entries, kind)]
    maps = [entry.model_dump(mode="json") for kind in kinds for entry in getattr(entries, kind)]
    if form == "json":
        write_json(maps)
    elif form == "table":
        print(yaml.safe_dump_all(maps, sort_keys=False, allow_unicode=True, width=80), end="")
    elif len(kinds) == 1:
        write_rows(catalog_rows(entries, kinds[0]), form)
    else:
        raise Misused(f"CSV has one kind, but there are {', '.join(kinds)}; -o json prints all")


def _entries_of(catalog: Catalog, name: str) -> Catalog:
    """Return the entries called `name`, or `NAME:CONSTRAINT` in a version that satisfies it.

    Raises Misused for a wrong constraint.
    """
    agents = tuple(agent for agent in catalog.agents if agent.announcement.agent == name)
    manifest_name, _, version = name.partition(":")
    try:
        constraint = constraint_of(version)
    except BadConstraint as error:
        raise Misused(f"{name}: {error}") from None
    manifests = {
        kind: tuple(
            manifest
            for manifest in getattr(catalog, kind)
            if manifest.name == manifest_name and satisfies(manifest.version, constraint)
        )
        for kind in KINDS
        if kind != "agents"
    }
    return Catalog(agents=agents, **manifests)


async def _failures(client: AsyncClient, status: EvaluationStatus) -> list[Table]:
    """Return why queries of an evaluation failed; nothing while its tables are unavailable."""
    if FAILURES not in status.tables:
        return []
    try:
        return failure_tables(await client.tables(status.evaluation, FAILURES))
    except ClientError as error:
        print(f"the reasons of failed queries are unavailable: {error}", file=sys.stderr)
        return []


def _print_evaluation(status: EvaluationStatus, form: str, failures: list[Table]) -> None:
    if form == "json":
        maps = {table.name: Rows.of_table(table).maps() for table in failures}
        write_json(status.model_dump(mode="json") | maps)
        return
    if form == "table":
        fields = [
            ("evaluation", status.evaluation),
            ("state", status.state),
            ("model", status.model),
            ("framework", f"{status.framework} {status.device}".strip()),
            ("labels", labels_text(status.labels)),
            ("requested", time_text(status.requested_ns)),
            ("cause", status.cause),
            ("tables", " ".join(status.tables)),
            ("address", status.address),
        ]
        fields += [(f"not {refusal.agent}", refusal.reason) for refusal in status.refusals]
        for name, value in fields:
            if value:
                print(f"{name:<12} {value}")
        print()
    records = [run.model_dump(mode="json") for run in status.runs]
    write_rows(rows_of(records, _RUN_COLUMNS), form)
    if form == "table" and failures:
        print()
        write_tables(failures, form)
