"""What every command that asks shares: its client, and a result as it is printed."""

import argparse
import sys
from collections.abc import Sequence

from cli.output import Rows, write_json, write_rows
from mlscope.client import AsyncClient, ResultTables
from schemas.analysis import Table
from schemas.status import EvaluationStatus

SUMMARY = ("latency", "throughput")
"""The tables that are an evaluation's result in short."""


def client_of(arguments: argparse.Namespace) -> AsyncClient:
    """Return the client for the connection that the arguments name."""
    return AsyncClient(url=arguments.url, seed_file=arguments.seed_file, data=arguments.data)


def result_of(status: EvaluationStatus, tables: ResultTables, form: str, name: str = "") -> None:
    """Print an evaluation's result: one table, else the summary; JSON holds every table."""
    if name:
        write_rows(Rows.of_table(tables[name].table), form)
    elif form == "json":
        write_json(
            {
                "evaluation": status.evaluation,
                "address": status.address,
                "status": status.model_dump(mode="json", exclude={"request"}),
                "tables": {each.name: Rows.of_table(each.table).maps() for each in tables.values()},
            }
        )
    else:
        write_tables([tables[each].table for each in SUMMARY if each in tables], form)


def write_tables(found: Sequence[Table], form: str) -> None:
    """Print tables one after the other; CSV holds one table, the first."""
    for place, table in enumerate(found):
        if form == "csv" and place:
            names = ", ".join(each.name for each in found[1:])
            print(f"CSV holds one table; for the others: --table {names}", file=sys.stderr)
            return
        rows = Rows.of_table(table)
        if form == "table":
            print(f"{chr(10) if place else ''}{rows.title}")
        write_rows(rows, form)
        if form == "table" and rows.note:
            print(rows.note)
        for caveat in table.caveats:
            print(f"{table.name}: {caveat}", file=sys.stderr)
