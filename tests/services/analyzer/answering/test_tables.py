"""Answers fit into a message: rows are left out only where they must be, and it shows."""

import pytest

from schemas.analysis import Column, Table, Tables
from schemas.encoding.codec import decode_body
from services.analyzer.answering.tables import answer_of


def _tables(**rows: int) -> Tables:
    columns = (Column(name="text", type="text"),)
    tables = [
        Table(name=name, title=name, columns=columns, rows=(("x" * 90,),) * count)
        for name, count in rows.items()
    ]
    return Tables(evaluation="e1", tables=tuple(tables), total_rows=rows)


@pytest.mark.parametrize("json_text", [True, False])
def test_what_fits_is_whole(json_text: bool) -> None:
    tables = _tables(a=3, b=0)
    assert decode_body(Tables, answer_of(tables, 10_000, json_text=json_text)) == tables


@pytest.mark.parametrize("json_text", [True, False])
def test_what_does_not_loses_rows_of_the_longest(json_text: bool) -> None:
    body = answer_of(_tables(a=3, b=1000), 10_000, json_text=json_text)
    answer = decode_body(Tables, body)
    short, long = answer.tables
    assert len(body) <= 10_000
    assert len(short.rows) == 3
    assert 10 < len(long.rows) < 1000
    assert answer.total_rows == {"a": 3, "b": 1000}
    assert long.caveats == ()


def test_no_rows_at_all_is_the_least() -> None:
    body = answer_of(_tables(a=3), 10, json_text=True)
    assert decode_body(Tables, body).tables[0].rows == ()
