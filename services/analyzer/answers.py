"""Answers to `tables` that fit into a message: whole where they do, else the first rows of each."""

from collections.abc import Sequence

from schemas.analysis import Table, Tables
from schemas.codec import encode_body


def answer_of(
    evaluation: str, tables: Sequence[Table], most_bytes: int, *, json_text: bool
) -> bytes:
    """Return tables as an answer of `most_bytes` or fewer.

    Rows are left out of the longest tables first; a table so cut says it among its caveats.
    """
    most_rows = max((len(table.rows) for table in tables), default=0)
    while True:
        shown = tuple(_cut(table, most_rows) for table in tables)
        body = encode_body(Tables(evaluation=evaluation, tables=shown), json_text=json_text)
        if len(body) <= most_bytes or most_rows == 0:
            return body
        most_rows //= 2


def _cut(table: Table, most_rows: int) -> Table:
    count = len(table.rows)
    if count <= most_rows:
        return table
    caveat = f"the first {most_rows} of {count} rows: ask for this table alone, or the database"
    return table.model_copy(
        update={"rows": table.rows[:most_rows], "caveats": (*table.caveats, caveat)}
    )
