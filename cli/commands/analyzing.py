"""`mlscope analyze`: what an evaluation's analyses found, in a sentence each, or whole."""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence

from cli import exits
from cli.commands.asking import client_of, write_tables
from cli.output import Rows, rows_of, width_of, write_json, write_rows
from mlscope.client import ResultTables
from mlscope.client.brief import brief
from mlscope.layout import wrapped

_AROUND_NAME = 16
"""Terminal columns beside a table's name: its number, its rows, and gaps."""
LEAST_VERDICT = 40
"""Terminal columns that a verdict has at least."""
_COLUMNS = ("id", "table", "rows", "verdict")


def analyze(arguments: argparse.Namespace) -> int:
    """Print a line an analysis; with names (`A8`, `kernels`) their tables."""
    return asyncio.run(_analyze(arguments))


async def _analyze(arguments: argparse.Namespace) -> int:
    async with client_of(arguments) as client:
        found = await client.tables(arguments.evaluation, *arguments.names)
    if arguments.names:
        _print_tables(found, arguments.names, arguments.output)
    elif arguments.output == "json":
        write_json([_record(found, name) for name in found])
    else:
        lines = [_line(found, name) for name in found]
        fit = width_of(sys.stdout) if arguments.output == "table" else 0
        write_rows(folded_lines(lines, fit) if fit else rows_of(lines, _COLUMNS), arguments.output)
    return exits.OK


def folded_lines(lines: Sequence[Mapping[str, object]], fit: int) -> Rows:
    """Return a line an analysis, whose verdict goes on below where it is longer than a terminal."""
    name_size = max(len(str(line["table"])) for line in lines) if lines else 0
    left = max(fit - name_size - _AROUND_NAME, LEAST_VERDICT)
    folded: list[tuple[str, ...]] = []
    for line in lines:
        first, *more = wrapped(str(line["verdict"]), left)
        folded.append((str(line["id"]), str(line["table"]), f"{line['rows']:>4}", first))
        folded += [("", "", "", each) for each in more]
    return Rows(_COLUMNS, tuple(folded))


def _print_tables(found: ResultTables, names: list[str], form: str) -> None:
    tables = [found[name].table for name in names]
    if form == "json":
        write_json([_record(found, name) for name in names])
    else:
        write_tables([brief(each) for each in tables] if form == "table" else tables, form)


def _line(found: ResultTables, name: str) -> dict[str, object]:
    table = found[name].table
    return {"id": table.id, "table": name, "rows": len(table.rows), "verdict": table.verdict}


def _record(found: ResultTables, name: str) -> dict[str, object]:
    """Return all that a table is, its rows as maps."""
    table = found[name].table
    told = table.model_dump(mode="json", exclude={"rows"})
    return told | {"rows": Rows.of_table(table).maps()}
