"""`mlscope analyze`: what an evaluation's analyses found, in a sentence each, or whole."""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence

from cli import exits
from cli.commands.asking import as_called, client_of, say, write_tables
from cli.output import Rows, rows_of, width_of, write_json, write_rows
from mlscope.client import ResultTables
from mlscope.client.brief import brief, caveat_lines, parted_caveats
from mlscope.layout import wrapped

_AROUND_NAME = 16
"""Terminal columns beside a table's name: its number, its rows, and gaps."""
LEAST_VERDICT = 40
"""Terminal columns that a verdict has at least."""
_MARK = "*"
"""Stands at a table's name on a terminal where the table has caveats that no other has."""
_COLUMNS = ("id", "table", "rows", "verdict")


def analyze(arguments: argparse.Namespace) -> int:
    """Print a line an analysis; with names (`A8`, `kernels`) their tables."""
    return asyncio.run(_analyze(arguments))


async def _analyze(arguments: argparse.Namespace) -> int:
    names = as_called(arguments.names)
    async with client_of(arguments) as client:
        found = await client.tables(arguments.evaluation, *names)
    if names:
        _print_tables(found, names, arguments.output)
    elif arguments.output == "json":
        write_json([_record(found, name) for name in found])
    else:
        shared, own = parted_caveats([found[name].table for name in found])
        lines = [{**_line(found, name), "caveats": len(own[name])} for name in found]
        fit = width_of(sys.stdout) if arguments.output == "table" else 0
        write_rows(folded_lines(lines, fit) if fit else rows_of(lines, _COLUMNS), arguments.output)
        if arguments.output == "table":
            for caveat in caveat_lines(shared):
                say(f"note: {caveat}")
            if told := caveats_told(lines, arguments.evaluation):
                say(f"{_MARK} {told}" if fit else told)
    return exits.OK


def folded_lines(lines: Sequence[Mapping[str, object]], fit: int) -> Rows:
    """Return a line an analysis, whose verdict goes on below where it is longer than a terminal.

    Names of tables with caveats of their own are marked.
    """
    names = [f"{line['table']}{_MARK if line.get('caveats') else ''}" for line in lines]
    name_size = max(map(len, names), default=0)
    left = max(fit - name_size - _AROUND_NAME, LEAST_VERDICT)
    folded: list[tuple[str, ...]] = []
    for line, name in zip(lines, names, strict=True):
        first, *more = wrapped(str(line["verdict"]), left)
        folded.append((str(line["id"]), name, f"{line['rows']:>4}", first))
        folded += [("", "", "", each) for each in more]
    return Rows(_COLUMNS, tuple(folded))


def caveats_told(lines: Sequence[Mapping[str, object]], evaluation: str) -> str:
    """Return which tables have caveats, as the command that prints them; nothing where none has."""
    names = [str(line["table"]) for line in lines if line.get("caveats")]
    one, more = "1 table has caveats of its own", f"{len(names)} tables have caveats of their own"
    command = f"mlscope analyze {evaluation} {' '.join(names)}"
    return f"{one if len(names) == 1 else more}, printed by: {command}" if names else ""


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
