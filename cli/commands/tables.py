"""`mlscope tables`: prints an evaluation's tables."""

import argparse

from cli import exits
from cli.inputs.connection import client_of
from cli.printing.narrowing import Narrowing
from cli.printing.output import Rows, write_json
from cli.printing.results import table_names, write_tables


async def tables(arguments: argparse.Namespace) -> int:
    """Print an evaluation's tables: all, or the named ones."""
    names = table_names(arguments.names)
    async with client_of(arguments) as client:
        results = await client.tables(arguments.evaluation, *names)
        # A run may have no row in the tables that are asked for.
        status = await client.status(arguments.evaluation) if arguments.of_run else None
    selected = [results[name] for name in names] or list(results.values())
    columns = tuple(name.strip() for name in arguments.columns.split(",") if name.strip())
    narrowing = Narrowing(arguments.of_run, arguments.sort, arguments.limit, columns)
    runs = [run.run for run in status.runs] if status else ()
    narrowed = narrowing.of([result.table for result in selected], runs)
    if arguments.output == "json":
        write_json({table.name: Rows.of_table(table).maps() for table in narrowed})
    else:
        write_tables(narrowed, arguments.output)
    return exits.OK
