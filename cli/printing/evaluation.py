"""One evaluation's state and runs, as `mlscope show EVALUATION` prints them."""

import sys
from collections.abc import Sequence

from cli.printing.catalog import labels_text, time_text
from cli.printing.output import Rows, rows_of, width_of, write_json, write_rows
from cli.printing.results import write_tables
from mlscope.texts.layout import wrapped
from mlscope.texts.printable import printable
from schemas.analysis import Table
from schemas.status import EvaluationStatus

_NAME_WIDTH, _LEAST_VALUE_WIDTH = 12, 40
_RUN_COLUMNS = (
    "run",
    "scenario",
    "batch_size",
    "level",
    "agent",
    "attempt",
    "state",
    "answered",
    "failed_queries",
    "spans",
    "cause",
)


def write_evaluation(
    status: EvaluationStatus, failures: Sequence[Table], form: str, result: str = ""
) -> None:
    """Print the `status` of an evaluation as `form`: table, json or csv; CSV has its runs alone.

    `failures`: the tables with the reasons of its failed queries; `result`: its performance result
    in a sentence, which only a table shows.
    """
    records = [run.model_dump(mode="json") for run in status.runs]
    if form == "json":
        maps = {table.name: Rows.of_table(table).maps() for table in failures}
        write_json(status.model_dump(mode="json") | maps)
        return
    if form == "csv":
        write_rows(rows_of(records, _RUN_COLUMNS), form)
        return
    fields = [
        ("evaluation", status.evaluation),
        ("state", status.state),
        ("model", status.model),
        ("framework", f"{status.framework} {status.device}".strip()),
        ("labels", labels_text(status.labels)),
        ("requested", time_text(status.requested_ns)),
        ("requested by", status.requested_by),
        ("visibility", status.visibility if status.visibility == "private" else ""),
        ("cause", status.cause),
        ("result", result),
        ("tables", " ".join(status.tables)),
        ("address", status.address),
    ]
    fields += [(f"not {refusal.agent}", refusal.reason) for refusal in status.refusals]
    fields += [("note", note) for note in status.notes]
    fit = width_of(sys.stdout)
    lines = [line for name, value in fields if value for line in field_lines(name, value, fit)]
    print(*lines, "", sep="\n")
    write_rows(rows_of(records, _RUN_COLUMNS), form)
    if failures:
        print()
        write_tables(failures, form)


def field_lines(name: str, value: str, fit: int = 0) -> list[str]:
    """Return a field in lines of at most `fit` terminal columns (0: one line), if words allow.

    A long `value` continues below its beginning; the `name` stands on the first line alone.
    """
    room = max(fit - _NAME_WIDTH - 1, _LEAST_VALUE_WIDTH) if fit else 0
    first, *others = wrapped(printable(value), room)
    return [f"{name:<{_NAME_WIDTH}} {first}", *(f"{'':{_NAME_WIDTH}} {text}" for text in others)]
