"""Answers to `tables` that fit into a message: whole where they do, else the first rows of each."""

from schemas.analysis import Table, Tables
from schemas.codec import encode_body


def answer_of(found: Tables, most_bytes: int, *, json_text: bool) -> bytes:
    """Return tables as an answer of `most_bytes` or fewer.

    Rows are left out of the longest tables first; `total_rows` tells that there are more.
    """
    most_rows = max((len(table.rows) for table in found.tables), default=0)
    while True:
        tables = tuple(_first(table, most_rows) for table in found.tables)
        body = encode_body(found.model_copy(update={"tables": tables}), json_text=json_text)
        if len(body) <= most_bytes or most_rows == 0:
            return body
        most_rows //= 2


def _first(table: Table, most_rows: int) -> Table:
    return table.model_copy(update={"rows": table.rows[:most_rows]})
