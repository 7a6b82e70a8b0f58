"""Results of an evaluation: tables with their caveats, failures, and the exit code."""

import contextlib
import re
import sys
from collections.abc import Sequence
from typing import Any

from cli import exits
from cli.printing.output import Rows, width_of, write_json, write_rows
from mlscope.client import AsyncClient, AsyncEvaluation, ResultTables
from mlscope.client.brief import FAILURES, SUMMARY, brief, caveat_lines, parted_caveats
from mlscope.client.errors import ClientError
from mlscope.counts import many
from mlscope.evaluation.run import awaits_count, is_cut_off
from mlscope.evaluation.status import awaits_tables
from mlscope.texts.layout import wrapped
from mlscope.texts.printable import printable
from schemas.analysis import Table
from schemas.status import EvaluationStatus

ACCURACY = "accuracy"
"""The table that tells whether the predictions are right."""
_ANALYSIS_NUMBER = re.compile(r"[aA]\d+")


def write_result(status: EvaluationStatus, tables: ResultTables, form: str, name: str = "") -> None:
    """Print an evaluation's result.

    `status`: the evaluation; `tables`: its tables; `form`: table, json or csv; `name`: print only
    this table. Without a name, JSON has every table, the other formats the summary.
    """
    if name:
        write_rows(Rows.of_table(tables[name].table), form)
        return
    if form == "json":
        write_json(
            {
                "evaluation": status.evaluation,
                "address": status.address,
                "status": status.model_dump(mode="json", exclude={"request", "subject"}),
                "tables": {
                    result.name: Rows.of_table(result.table).maps() for result in tables.values()
                },
            }
        )
        return
    summary = [tables[name].table for name in SUMMARY if name in tables]
    summary += failure_tables(tables)
    write_tables(summary if form == "csv" else list(map(brief, summary)), form)
    if form == "table" and (verdict := accuracy_verdict(tables)):
        print(f"\n{verdict}")


def table_maps(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Return tables for JSON, each row as a map by column."""
    return [
        table.model_dump(mode="json", exclude={"rows"}) | {"rows": Rows.of_table(table).maps()}
        for table in tables
    ]


def accuracy_verdict(tables: ResultTables) -> str:
    """Return the verdict on accuracy, or '' when the dataset has no expected answers."""
    if ACCURACY not in tables:
        return ""
    table = tables[ACCURACY].table
    is_relevant = table.rows or table.verdict.startswith("Accuracy is not available")
    return table.verdict if is_relevant else ""


def failure_tables(tables: ResultTables) -> list[Table]:
    """Return the table with the reasons of failed queries, if any failed."""
    return [tables[FAILURES].table] if FAILURES in tables and tables[FAILURES].table.rows else []


def write_tables(tables: Sequence[Table], form: str) -> None:
    """Print tables one after the other as `form`; CSV has the first table only.

    Caveats go to stderr; a caveat that several tables share is printed once, at the end.
    """
    printed = tables[:1] if form == "csv" else tables
    shared, own = parted_caveats(printed)
    for number, table in enumerate(printed):
        rows = Rows.of_table(table)
        if form == "table":
            print(f"{chr(10) if number else ''}{rows.title}")
        write_rows(rows, form)
        if form == "table" and rows.note:
            print("\n".join(wrapped(rows.note, width_of(sys.stdout))))
        for caveat in caveat_lines(own[table.name]):
            print_note(f"{table.name}: {caveat}")
    for caveat in caveat_lines(shared):
        print_note(f"note: {caveat}")
    if omitted := " ".join(table.name for table in tables[len(printed) :]):
        print_note(f"CSV has one table; print others with `mlscope tables`: {omitted}")


def write_accepted(evaluation: AsyncEvaluation, form: str) -> None:
    """Print the id and the page of an accepted evaluation as `form`: table, json or csv."""
    accepted = {"evaluation": evaluation.id, "address": evaluation.address}
    if form == "json":
        write_json(accepted)
        return
    if form == "csv":
        write_rows(Rows(tuple(accepted), (tuple(accepted.values()),)), form)
        return
    print(evaluation.id)
    print(f"{evaluation.address}  mlscope watch {evaluation.id}", file=sys.stderr)


def print_run_notes(status: EvaluationStatus) -> None:
    """Print on stderr what there is to note on each run, beside the evaluation's own cause."""
    notes = [
        (run, note) for run in status.runs for note in (run.cause, run.level_note, *run.caveats)
    ]
    for run, note in notes:
        if note and note != status.cause:
            print(f"{run.run} ({run.state}): {printable(note)}", file=sys.stderr)


def print_note(text: str) -> None:
    """Print a sentence on stderr, wrapped to the width of its terminal."""
    print("\n".join(wrapped(text, width_of(sys.stderr))), file=sys.stderr)


def table_names(arguments: Sequence[str]) -> list[str]:
    """Return numbers and names of tables in their own case: `a2` is A2, `Layers` is layers."""
    return [
        name.upper() if _ANALYSIS_NUMBER.fullmatch(name) else name.lower() for name in arguments
    ]


def print_failure(status: EvaluationStatus) -> None:
    """Print on stderr why an evaluation was not analyzed, and why agents could not run it."""
    cause = status.cause or "no cause given"
    lines = [f"{status.evaluation} {status.state}: {cause}"]
    lines += [f"  {refusal.agent}: {refusal.reason}" for refusal in status.refusals]
    print(*map(printable, lines), sep="\n", file=sys.stderr)
    print_kept_runs(status)


async def note_kept_runs(client: AsyncClient, evaluation: str) -> None:
    """Print on stderr how many runs of an `evaluation` that was just cancelled have rows.

    Nothing is printed if none has, or if the cluster of the `client` does not answer.
    """
    with contextlib.suppress(ClientError):
        print_kept_runs(await client.status(evaluation))


def print_kept_runs(status: EvaluationStatus) -> None:
    """Print on stderr how many runs of a cancelled evaluation with this `status` have rows."""
    if not (status.tables or awaits_tables(status)) or status.state != "cancelled":
        return
    complete = sum(run.outcome == "completed" for run in status.runs)
    cut_off = sum(is_cut_off(run) or awaits_count(run) for run in status.runs)
    parts = f", {cut_off} cut off" if cut_off else ""
    analysis = "analyzed:" if status.tables else "being analyzed; in a moment:"
    counts = f"{complete} of {many(len(status.runs), 'run')} complete{parts}, and {analysis}"
    print(f"{counts} mlscope analyze {status.evaluation}", file=sys.stderr)


def caveats_of(tables: ResultTables) -> list[str]:
    """Return the caveats of all tables with rows, each once, with the table's name."""
    filled = [result.table for result in tables.values() if result.table.rows]
    shared, own = parted_caveats(filled)
    named = [f"{name}: {text}" for name, texts in own.items() for text in caveat_lines(texts)]
    return [*caveat_lines(shared), *named]


def exit_code_of(status: EvaluationStatus, *, is_strict: bool, caveats: Sequence[str] = ()) -> int:
    """Return the exit code of an analyzed evaluation with this `status`.

    A failed run comes before missing batches, and those before caveats, which count if `is_strict`:
    those of runs, and `caveats` of tables.
    """
    states = {run.state for run in status.runs}
    if states & {"failed", "interrupted"}:
        return exits.FAILED
    has_caveats = any((*caveats, *(run.caveats or run.level_note for run in status.runs)))
    if "incomplete" in states or (is_strict and has_caveats):
        return exits.INVALID
    return exits.OK
