"""Tables travel with their columns, and numbers a database may hold survive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.analysis import Column, Table, Tables
from schemas.encoding.codec import decode_body, encode_body, parse
from schemas.encoding.errors import MalformedMessage

_CELLS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=9)
_ROWS = st.lists(st.tuples(_CELLS, st.floats(allow_nan=False)), max_size=4).map(tuple)
_COLUMNS = (Column(name="a", type="text"), Column(name="b", type="float", unit="ns"))


@given(_ROWS)
def test_rows_come_out_as_they_went_in(rows: tuple[tuple[object, ...], ...]) -> None:
    table = Table(name="t", title="T", columns=_COLUMNS, rows=rows, caveats=("c",))
    answer = Tables(evaluation="e1", tables=(table,), total_rows={"t": len(rows)})
    assert decode_body(Tables, encode_body(answer)) == answer


def test_numbers_that_json_lacks_become_null_there() -> None:
    table = Table(name="t", title="T", columns=_COLUMNS, rows=(("x", float("nan")),))
    answer = Tables(evaluation="e1", tables=(table,))
    read = decode_body(Tables, encode_body(answer, json_text=True))
    assert read.tables[0].rows == (("x", None),)


def test_a_column_of_no_known_type_is_named() -> None:
    value = {"name": "t", "title": "", "columns": [{"name": "a", "type": "date"}], "rows": []}
    with pytest.raises(MalformedMessage) as raised:
        parse(Table, value)
    assert raised.value.field == "columns.0.type"
