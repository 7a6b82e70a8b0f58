"""`mlscope compare`: how far two evaluations' answers to the same samples are apart."""

import argparse
import asyncio

from cli import exits
from cli.commands.asking import client_of, write_tables
from cli.output import Rows, write_json
from schemas.analysis import Compared


def compare(arguments: argparse.Namespace) -> int:
    """Print the measures over all samples, and with `--samples` those of each."""
    return asyncio.run(_compare(arguments))


async def _compare(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        found = await client.compare(arguments.first, arguments.second)
    if arguments.output == "json":
        write_json(_record(found))
        return exits.OK
    overall, samples = found.tables
    write_tables([overall, samples] if arguments.samples else [overall], arguments.output)
    return exits.OK


def _record(found: Compared) -> dict[str, object]:
    tables = {each.name: Rows.of_table(each).maps() for each in found.tables}
    return {
        "first": f"{found.first}/{found.first_run}",
        "second": f"{found.second}/{found.second_run}",
        **tables,
    }
