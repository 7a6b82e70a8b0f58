"""Statements whose plan depends on their values are planned for them each time."""

import psycopg
import pytest
from psycopg.rows import scalar_row

from services.analyzer.storage.session import Session


@pytest.mark.parametrize(("name", "prepared"), [("maps", 1), ("maps_for", 0)])
def test_a_long_list_is_no_value_of_a_prepared_statement(
    database_url: str, name: str, prepared: int
) -> None:
    with psycopg.connect(database_url) as connection:
        session = Session(connection, {"doubled": "SELECT 2 * %(number)s::int AS number"})
        for number in range(10):
            assert getattr(session, name)("doubled", {"number": number}) == [{"number": 2 * number}]
        cursor = connection.cursor(row_factory=scalar_row)
        counted = cursor.execute("SELECT count(*) FROM pg_prepared_statements", prepare=False)
        assert counted.fetchone() == prepared
