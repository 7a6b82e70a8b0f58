"""`mlscope compare`: two evaluations' predictions for the same samples, or several's figures.

With `--report`, the figures are a document, the same as the gateway's.
"""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cli import exits
from cli.commands.report import analyzed, drawing
from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.inputs.request import prices_of
from cli.printing.output import Rows, write_json
from cli.printing.results import table_maps, write_tables
from mlscope.client import AsyncClient
from mlscope.client.asking import command_of
from mlscope.client.brief import COLUMNS, brief
from schemas.analysis import Table
from schemas.request import Compare

if TYPE_CHECKING:
    from services.gateway.reports.comparison import Comparison


async def compare(arguments: argparse.Namespace) -> int:
    """Print the measures over all samples, and with `--samples` those of each sample.

    With more than two evaluations, or `--figures`, print the tables that compare their figures;
    with `--report` write them to a file.
    """
    if arguments.report:
        return await _write_report(arguments)
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
    ids, terms = (arguments.first, arguments.second, *arguments.others), _terms(arguments)
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
        is_brief = arguments.output == "table"
        shortened = [brief(table) if table.name in COLUMNS else table for table in selected]
        write_tables(shortened if is_brief else selected, arguments.output)
    return exits.OK


def _terms(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the prices and limits of `arguments` as fields of `Compare`."""
    latency_ms = arguments.latency_ms
    return {
        "prices": prices_of(arguments.price),
        "most_latency_ns": None if latency_ms is None else latency_ms * 1e6,
        "most_cost": arguments.cost,
        "least_accuracy": arguments.accuracy,
    }


async def _write_report(arguments: argparse.Namespace) -> int:
    """Write the comparison of the figures to an .html file."""
    if arguments.report.suffix.lower() != ".html":
        raise Misused(f"--report {arguments.report}: expected a file that ends in .html")
    terms = _terms(arguments)
    async with drawing(arguments.data) as pictures:
        from services.gateway.reports.comparison import comparison_document

        async with client_of(arguments) as client:
            comparison = await _comparison(client, arguments, terms)
        content = (await comparison_document(comparison, pictures)).encode()
    arguments.report.write_bytes(content)
    tables = len(comparison.compared.tables)
    print(f"{arguments.report}: {tables} tables, {len(content)} bytes")
    return exits.OK


async def _comparison(
    client: AsyncClient, arguments: argparse.Namespace, terms: Mapping[str, Any]
) -> "Comparison":
    from services.gateway.reports.comparison import Comparison

    names = (arguments.first, arguments.second, *arguments.others)
    statuses = [await analyzed(client, name) for name in names]
    first, second, *others = ids = [status.evaluation for status in statuses]
    fields = {"first": first, "second": second, "others": tuple(others), "figures": True, **terms}
    return Comparison(
        command_of(Compare, fields),
        statuses,
        [await _conditions(client, evaluation) for evaluation in ids],
        await client.figures(*ids, **terms),
    )


async def _conditions(client: AsyncClient, evaluation: str) -> Table | None:
    tables = await client.tables(evaluation, "conditions")
    return tables["conditions"].table if "conditions" in tables else None
