"""Answers fit into a message: rows are left out only where they must be, and it is said."""

import pytest

from schemas.analysis import Column, Table, Tables
from schemas.codec import decode_body
from services.analyzer.answers import answer_of


def _table(name: str, rows: int) -> Table:
    columns = (Column(name="text", type="text"),)
    return Table(name=name, title=name, columns=columns, rows=(("x" * 90,),) * rows)


@pytest.mark.parametrize("json_text", [True, False])
def test_what_fits_is_whole(json_text: bool) -> None:
    tables = (_table("a", 3), _table("b", 0))
    body = answer_of("e1", tables, 10_000, json_text=json_text)
    assert decode_body(Tables, body).tables == tables


@pytest.mark.parametrize("json_text", [True, False])
def test_what_does_not_loses_rows_of_the_longest_and_says_so(json_text: bool) -> None:
    body = answer_of("e1", (_table("a", 3), _table("b", 1000)), 10_000, json_text=json_text)
    short, long = decode_body(Tables, body).tables
    assert len(body) <= 10_000
    assert len(short.rows) == 3
    assert short.caveats == ()
    assert 10 < len(long.rows) < 1000
    assert f"the first {len(long.rows)} of 1000 rows" in long.caveats[0]


def test_no_rows_at_all_is_the_least() -> None:
    body = answer_of("e1", (_table("a", 3),), 10, json_text=True)
    assert decode_body(Tables, body).tables[0].rows == ()
