"""`mlscope analyze`: the verdict of each analysis of an evaluation, or complete tables."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.printing.bars import bar_lines
from cli.printing.output import Rows, rows_of, width_of, write_json, write_rows
from cli.printing.results import print_note, table_maps, table_names, write_tables
from mlscope.client.brief import brief, caveat_lines, parted_caveats
from mlscope.texts.layout import wrapped
from schemas.analysis import Table

_OTHER_COLUMNS_WIDTH = 16
"""Terminal columns for the number, the row count and the gaps."""
LEAST_VERDICT_WIDTH = 40
_MARK = "*"
"""Follows a table's name on a terminal if the table has caveats that no other has."""
_PLOT_WIDTH = 100
_PICTURES = ("svg", "png", "pdf")
_COLUMNS = ("id", "table", "rows", "verdict")


async def analyze(arguments: argparse.Namespace) -> int:
    """Print the verdict of each analysis with rows, then why others have none.

    With names (`A8`, `kernels`) print their tables.
    """
    names = table_names(arguments.names)
    async with client_of(arguments) as client:
        results = await client.tables(arguments.evaluation, *names)
    tables = [results[name].table for name in names or results]
    if arguments.plot is not None:
        return plot(tables, arguments.plot)
    if arguments.output == "json":
        write_json(table_maps(tables))
    elif names:
        is_brief = arguments.output == "table"
        write_tables([brief(table) for table in tables] if is_brief else tables, arguments.output)
    else:
        _print_verdicts(tables, arguments)
    return exits.OK


def plot(tables: Sequence[Table], path: str) -> int:
    """Draw the charts of `tables` on the terminal, or that of a single one into a file at `path`.

    Raises Misused for a path of another kind, several tables, or one without a chart.
    """
    if not path:
        width = width_of(sys.stdout) or _PLOT_WIDTH
        drawn = (bar_lines(table, width) for table in tables if table.chart and table.rows)
        print("\n\n".join("\n".join(lines) for lines in drawn) or "no table has a chart")
        return exits.OK
    form = Path(path).suffix.removeprefix(".").lower()
    if form not in _PICTURES:
        raise Misused(f"--plot {path}: expected a file .{', .'.join(_PICTURES)}")
    if len(tables) != 1:
        raise Misused("--plot FILE draws one table: name it, e.g. `mlscope analyze ID A3 --plot`")
    # Loaded only to draw: the engine is large.
    from services.gateway.charts.fitting import fitted
    from services.gateway.charts.pen import picture
    from services.gateway.charts.theme import PRINT

    chart = fitted(tables[0], PRINT)
    if chart.spec is None:
        raise Misused(f"{tables[0].name} has no chart. {' '.join(chart.notes)}".strip())
    try:
        content = picture(dict(chart.spec), form)
    except ImportError as error:
        raise Misused("--plot FILE needs: pip install 'mlscope[charts]'") from error
    Path(path).write_bytes(content)
    print(path)
    for note in chart.notes:
        print_note(f"note: {note}")
    return exits.OK


def _print_verdicts(tables: Sequence[Table], arguments: argparse.Namespace) -> None:
    shared, own = parted_caveats(tables)
    lines = [
        {
            "id": table.id,
            "table": table.name,
            "rows": len(table.rows),
            "verdict": table.verdict,
            "caveats": len(own[table.name]),
        }
        for table in tables
    ]
    if arguments.output != "table":
        write_rows(rows_of(lines, _COLUMNS), arguments.output)
        return
    fit = width_of(sys.stdout)
    filled = [line for line in lines if line["rows"]]
    write_rows(wrapped_verdicts(filled, fit) if fit else rows_of(filled, _COLUMNS), "table")
    sys.stdout.writelines(f"{line}\n" for line in lines_without_rows(lines, fit))
    for caveat in caveat_lines(shared):
        print_note(f"note: {caveat}")
    if hint := caveats_hint(lines, arguments.evaluation):
        print_note(f"{_MARK} {hint}" if fit else hint)


def wrapped_verdicts(lines: Sequence[Mapping[str, object]], fit: int) -> Rows:
    """Return rows for a terminal of `fit` columns; long verdicts continue in further rows.

    `lines` are the analyses. Names of tables with caveats of their own are marked.
    """
    names = [f"{line['table']}{_MARK if line.get('caveats') else ''}" for line in lines]
    name_width = max(map(len, names), default=0)
    verdict_width = max(fit - name_width - _OTHER_COLUMNS_WIDTH, LEAST_VERDICT_WIDTH)
    rows: list[tuple[str, ...]] = []
    for line, name in zip(lines, names, strict=True):
        first, *continued = wrapped(str(line["verdict"]), verdict_width)
        rows.append((str(line["id"]), name, f"{line['rows']:>4}", first))
        rows += [("", "", "", text) for text in continued]
    return Rows(_COLUMNS, tuple(rows))


def lines_without_rows(lines: Sequence[Mapping[str, object]], fit: int = 0) -> list[str]:
    """Return an empty line, then each distinct verdict of tables without rows and their names.

    `lines` are the analyses, `fit` the width of the terminal, 0 for any. Nothing where all have
    rows.
    """
    names: dict[str, list[str]] = {}
    for line in lines:
        if not line["rows"]:
            names.setdefault(str(line["verdict"]), []).append(str(line["table"]))
    reasons = [f"{verdict.rstrip('.')}: {', '.join(tables)}" for verdict, tables in names.items()]
    texts = [text for reason in reasons for text in wrapped(reason, fit)]
    return ["", *texts] if texts else []


def caveats_hint(lines: Sequence[Mapping[str, object]], evaluation: str) -> str:
    """Return the command that prints the tables with caveats of their own; '' without any."""
    names = [str(line["table"]) for line in lines if line.get("caveats")]
    if not names:
        return ""
    command = f"mlscope analyze {evaluation} {' '.join(names)}"
    if len(names) == 1:
        return f"1 table has its own caveats; to print them: {command}"
    return f"{len(names)} tables have their own caveats; to print them: {command}"
