"""What every command that asks shares: its client, and a result as it is printed."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from cli.output import Rows, write_json, write_rows
from mlscope.client import AsyncClient, ResultTables
from schemas.analysis import Table
from schemas.status import EvaluationStatus

SHORT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "latency": (
            *("scenario", "batch_size", "level", "count", "failed", "trimmed_mean"),
            *("median", "p90", "p99", "service_median"),
        ),
        "throughput": (
            *("scenario", "batch_size", "level", "samples_per_s"),
            *("samples_per_s_low", "samples_per_s_high", "offered_per_s"),
        ),
    }
)
"""An evaluation's result in short: two tables, and their columns that fit a terminal."""


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
        write_tables([tables[each].table for each in SHORT if each in tables], form, is_short=True)


def write_tables(found: Sequence[Table], form: str, *, is_short: bool = False) -> None:
    """Print tables one after the other; CSV holds one table, the first.

    `is_short` leaves out columns on a terminal, never in CSV.
    """
    for place, table in enumerate(found):
        if form == "csv" and place:
            names = ", ".join(each.name for each in found[1:])
            print(f"CSV holds one table; for the others: --table {names}", file=sys.stderr)
            return
        rows = Rows.of_table(table)
        if form == "table":
            print(f"{chr(10) if place else ''}{rows.title}")
        is_cut = is_short and form == "table"
        write_rows(rows.kept(SHORT[table.name]) if is_cut else rows, form)
        if form == "table" and rows.note:
            print(rows.note)
        for caveat in table.caveats:
            print(f"{table.name}: {caveat}", file=sys.stderr)
