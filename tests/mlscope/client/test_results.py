"""Tables as a user reads them."""

import pytest

from mlscope.client import NoSuchTable
from mlscope.client.results import ResultTable, ResultTables
from schemas.analysis import Tables
from tests.stories import LATENCY, E


def test_a_table_reads_as_rows_and_as_a_frame() -> None:
    table = ResultTable(LATENCY)
    assert table.rows()[0] == {"run": "r0", "p50": 5e6}
    assert table.polars()["p50"].to_list()[0] == 5e6
    assert (table.name, table.verdict) == ("latency", LATENCY.verdict)
    assert [column.unit for column in table.columns] == ["", "ns"]


def test_a_table_shows_its_size_and_reads_as_text() -> None:
    table = ResultTable(LATENCY)
    assert repr(table) == "<ResultTable latency: 2 rows>"
    assert LATENCY.verdict in str(table)


def test_tables_are_a_map_whose_gaps_say_what_there_is() -> None:
    tables = ResultTables(Tables(evaluation=E, tables=(LATENCY,)))
    assert (list(tables), len(tables), "latency" in tables) == (["latency"], 1, True)
    with pytest.raises(NoSuchTable, match="known tables: latency"):
        tables["none"]
    assert tables.get("latency") is not None


def test_a_numbered_table_is_found_by_its_number() -> None:
    numbered = LATENCY.model_copy(update={"id": "A8"})
    tables = ResultTables(Tables(evaluation=E, tables=(numbered,)))
    assert (list(tables), "A8" in tables, "A9" in tables) == (["latency"], True, False)
    assert tables["A8"].name == "latency"
