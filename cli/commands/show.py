"""`mlscope show`: an evaluation, or the catalog's complete entry of a name."""

import argparse
import sys

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.printing.catalog import KINDS, write_entries
from cli.printing.evaluation import write_evaluation
from cli.printing.predictions import write_predictions
from cli.printing.results import failure_tables
from mlscope.client import AsyncClient, ClientError, CommandRefused, ResultTables
from mlscope.client.brief import FAILURES
from mlscope.manifests.constraints import constraint_of, satisfies
from mlscope.manifests.errors import BadConstraint
from schemas.status import Catalog, EvaluationStatus

_LATENCY = "latency"
_RESULT = "Final performance result: "
"""How the verdict of `latency` begins."""


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
            tables = await _result_tables(client, status)
            result = tables[_LATENCY].table.verdict if tables and _LATENCY in tables else ""
            failures = failure_tables(tables) if tables else []
            write_evaluation(status, failures, arguments.output, result.removeprefix(_RESULT))
            return exits.OK
    entries = _entries_of(catalog, arguments.name)
    if entries == Catalog():
        lists = "`mlscope ls evaluations`, `mlscope ls models` and `mlscope ls agents`"
        raise Misused(f"nothing is named {arguments.name}; {lists} list names")
    write_entries(entries, arguments.output)
    return exits.OK


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


async def _result_tables(client: AsyncClient, status: EvaluationStatus) -> ResultTables | None:
    """Return the tables of results and failures, as far as there are any."""
    names = [name for name in (_LATENCY, FAILURES) if name in status.tables]
    if not names:
        return None
    try:
        return await client.tables(status.evaluation, *names)
    except ClientError as error:
        print(
            f"the result and the reasons of failed queries are unavailable: {error}",
            file=sys.stderr,
        )
        return None
