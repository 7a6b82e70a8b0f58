"""What every command that asks shares: its client, and a result as it is printed."""

import argparse
import re
import sys
from collections.abc import Sequence

from cli.output import Rows, width_of, write_json, write_rows
from mlscope.client import AsyncClient, ResultTables
from mlscope.client.brief import FAILURES, SUMMARY, brief, caveat_lines, parted_caveats
from mlscope.layout import wrapped
from schemas.analysis import Table
from schemas.status import EvaluationStatus

ACCURACY = "accuracy"
"""The table that says whether the answers are right."""
_NUMBER = re.compile(r"[aA]\d+")


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
                "status": status.model_dump(mode="json", exclude={"request", "subject"}),
                "tables": {each.name: Rows.of_table(each.table).maps() for each in tables.values()},
            }
        )
    else:
        found = [tables[each].table for each in SUMMARY if each in tables]
        found += failures_in(tables)
        write_tables(found if form == "csv" else [brief(each) for each in found], form)
        if form == "table" and (said := accuracy_said(tables)):
            print(f"\n{said}")


def accuracy_said(tables: ResultTables) -> str:
    """Return what is said of accuracy; nothing where the dataset does not know what is right."""
    if ACCURACY not in tables:
        return ""
    table = tables[ACCURACY].table
    is_told = table.rows or table.verdict.startswith("Accuracy is not available")
    return table.verdict if is_told else ""


def failures_in(tables: ResultTables) -> list[Table]:
    """Return the table that says why queries failed, when some did."""
    return [tables[FAILURES].table] if FAILURES in tables and tables[FAILURES].table.rows else []


def write_tables(found: Sequence[Table], form: str) -> None:
    """Print tables one after the other; CSV holds one table, the first.

    What several of them say of the same figures is said once, below all.
    """
    printed = found[:1] if form == "csv" else found
    shared, own = parted_caveats(printed)
    for place, table in enumerate(printed):
        rows = Rows.of_table(table)
        if form == "table":
            print(f"{chr(10) if place else ''}{rows.title}")
        write_rows(rows, form)
        if form == "table" and rows.note:
            print("\n".join(wrapped(rows.note, width_of(sys.stdout))))
        for caveat in caveat_lines(own[table.name]):
            say(f"{table.name}: {caveat}")
    for caveat in caveat_lines(shared):
        say(f"note: {caveat}")
    if others := " ".join(each.name for each in found[len(printed) :]):
        say(f"CSV holds one table; `mlscope tables` prints others: {others}")


def say(text: str) -> None:
    """Print a sentence on stderr, in lines no wider than its terminal where it is one."""
    print("\n".join(wrapped(text, width_of(sys.stderr))), file=sys.stderr)


def as_called(names: Sequence[str]) -> list[str]:
    """Return tables' numbers and names as they are written: `a2` is A2, `Layers` is layers."""
    return [each.upper() if _NUMBER.fullmatch(each) else each.lower() for each in names]
