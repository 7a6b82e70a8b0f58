"""`mlscope tables`: prints an evaluation's tables."""

import argparse

from cli import exits
from cli.inputs.connection import client_of
from cli.printing.output import Rows, write_json
from cli.printing.results import table_names, write_tables


async def tables(arguments: argparse.Namespace) -> int:
    """Print an evaluation's tables: all, or the named ones."""
    names = table_names(arguments.names)
    async with client_of(arguments) as client:
        results = await client.tables(arguments.evaluation, *names)
    selected = [results[name] for name in names] or list(results.values())
    if arguments.output == "json":
        write_json({result.name: Rows.of_table(result.table).maps() for result in selected})
    else:
        write_tables([result.table for result in selected], arguments.output)
    return exits.OK
