"""`mlscope compare`: two evaluations' predictions for the same samples, or several's figures."""

import argparse

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.inputs.request import prices_of
from cli.printing.output import Rows, write_json
from cli.printing.results import table_maps, write_tables


async def compare(arguments: argparse.Namespace) -> int:
    """Print the measures over all samples, and with `--samples` those of each sample.

    With more than two evaluations, or `--figures`, print the tables that compare their figures.
    """
    targets = (arguments.latency_ms, arguments.cost, arguments.accuracy)
    has_targets = any(target is not None for target in targets)
    wants_figures = arguments.figures or arguments.others or arguments.price or arguments.only
    if wants_figures or has_targets:
        return await _compare_figures(arguments)
    async with client_of(arguments) as client:
        compared = await client.compare(arguments.first, arguments.second)
    if arguments.output == "json":
        write_json(
            {
                "first": f"{compared.first}/{compared.first_run}",
                "second": f"{compared.second}/{compared.second_run}",
                **{table.name: Rows.of_table(table).maps() for table in compared.tables},
            }
        )
        return exits.OK
    overall, samples = compared.tables
    write_tables([overall, samples] if arguments.samples else [overall], arguments.output)
    return exits.OK


async def _compare_figures(arguments: argparse.Namespace) -> int:
    latency_ms = arguments.latency_ms
    terms = {
        "prices": prices_of(arguments.price),
        "most_latency_ns": None if latency_ms is None else latency_ms * 1e6,
        "most_cost": arguments.cost,
        "least_accuracy": arguments.accuracy,
    }
    ids = (arguments.first, arguments.second, *arguments.others)
    async with client_of(arguments) as client:
        figures = await client.figures(*ids, **terms)
    tables = {table.name: table for table in figures.tables}
    unknown = sorted(set(arguments.only) - tables.keys())
    if unknown:
        raise Misused(
            f"--only: unknown table {', '.join(unknown)}; choose from: {', '.join(tables)}"
        )
    selected = [tables[name] for name in arguments.only or tables]
    if arguments.output == "json":
        write_json(table_maps(selected))
    else:
        write_tables(selected, arguments.output)
    return exits.OK
