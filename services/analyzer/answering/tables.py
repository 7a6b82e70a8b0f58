"""Answers to `tables` that fit into a message: complete, else the first rows of each table."""

from schemas.analysis import Tables
from schemas.encoding.codec import encode_body


def answer_of(answer: Tables, most_bytes: int, *, json_text: bool) -> bytes:
    """Return the tables of `answer` in `most_bytes` or fewer, as JSON if `json_text`, else msgpack.

    Rows are left out of the longest tables first; `total_rows` shows that there are more.
    """
    most_rows = max((len(table.rows) for table in answer.tables), default=0)
    while True:
        tables = tuple(
            table.model_copy(update={"rows": table.rows[:most_rows]}) for table in answer.tables
        )
        body = encode_body(answer.model_copy(update={"tables": tables}), json_text=json_text)
        if len(body) <= most_bytes or most_rows == 0:
            return body
        most_rows //= 2
