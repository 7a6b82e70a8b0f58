"""The role of the dashboards sees rows of evaluations that everybody may see, and no others."""

from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from mlscope.database.migrations import apply
from tests.dashboards.reading_role import KEYS, as_reader, fill, migrated, script

OWNERS = """
SELECT relname, string_agg(attname, ' ' ORDER BY attname)
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
    AND attname IN ('run_key', 'evaluation')
GROUP BY relname ORDER BY relname
"""


def _relations(session: psycopg.Connection[Any]) -> dict[str, list[str]]:
    found = session.execute(OWNERS).fetchall()
    return {name: columns.split() for name, columns in found}


def _whose(session: psycopg.Connection[Any], schema: str, name: str, key: str) -> set[str]:
    query = sql.SQL("SELECT DISTINCT {} FROM {}").format(
        sql.Identifier(key), sql.Identifier(*filter(None, (schema, name)))
    )
    return {KEYS.get(value, value) for (value,) in session.execute(query).fetchall()}


def test_the_role_sees_rows_of_evaluations_that_everybody_may_see(
    reader: psycopg.Connection[Any], database_url: str
) -> None:
    """Neither a private evaluation's nor one's of which nobody knows."""
    with psycopg.connect(database_url) as owner:
        relations = _relations(owner)
        stored = {name: _whose(owner, "public", name, keys[-1]) for name, keys in relations.items()}
    assert {"run", "span", "query", "output", "batch", "spans", "analysis"} < relations.keys()
    filled = {name for name, whose in stored.items() if {"e1", "hidden"} <= whose}
    assert {"run", "span", "query", "output", "batch", "spans", "span_name"} < filled
    assert {"analysis", "analysis_row", "analysis_latency", "query_trend"} < filled
    for name, keys in relations.items():
        for key in keys:
            assert _whose(reader, "", name, key) == stored[name] & {"e1"}, name


def test_trends_count_only_what_everybody_may_see(
    reader: psycopg.Connection[Any], database_url: str
) -> None:
    runs = "SELECT sum(runs)::int4, sum(queries)::int4 FROM trend"
    with psycopg.connect(database_url) as owner:
        assert owner.execute(runs).fetchall() == [(3, 9)]
    assert reader.execute(runs).fetchall() == [(1, 3)]


def test_the_tables_themselves_are_closed(reader: psycopg.Connection[Any]) -> None:
    for name in (*_relations(reader), "trend", "stored_up_to", "schema_version"):
        with pytest.raises(errors.InsufficientPrivilege):
            reader.execute(sql.SQL("TABLE public.{}").format(sql.Identifier(name)))


def test_an_error_does_not_tell_a_hidden_value(reader: psycopg.Connection[Any]) -> None:
    """A condition of the reader's own is asked of visible rows only."""
    found = reader.execute("SELECT 1 FROM run WHERE (evaluation || 'x')::text <> 'e1x'")
    assert found.fetchall() == []
    told = "SELECT 1 FROM run WHERE CASE evaluation WHEN 'e1' THEN 1 ELSE evaluation::int4 END = 1"
    assert len(reader.execute(told.encode()).fetchall()) == 1


def test_views_are_made_anew_by_later_migrations(
    reader: psycopg.Connection[Any], database_url: str, tmp_path: Path
) -> None:
    """Also what such a migration drops, and a table that it makes."""
    (tmp_path / "0001_more.sql").write_text(
        "DROP VIEW trend, query_trend; CREATE TABLE more AS SELECT run_key FROM run;"
        "CREATE TABLE others AS SELECT 1 AS n"
    )
    apply(database_url, "test", tmp_path)
    assert reader.execute("SELECT count(*) FROM more").fetchall() == [(1,)]
    assert reader.execute("SELECT evaluation FROM run").fetchall() == [("e1",)]
    with pytest.raises(errors.InsufficientPrivilege):
        reader.execute("SELECT n FROM others")


def test_an_upgrade_takes_from_the_role_what_it_could_read_before(database_url: str) -> None:
    """Its session goes on with the views: it need not be made again."""
    migrated(database_url)
    fill(database_url)
    with as_reader(database_url) as reader, psycopg.connect(database_url) as owner:
        owner.execute("DROP SCHEMA mlscope_reader CASCADE")
        owner.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO mlscope_reader")
        owner.execute(
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO mlscope_reader"
        )
        owner.execute(
            "DELETE FROM schema_version WHERE version LIKE 'views-%' AND component = 'analyzer'"
        )
        owner.commit()
        assert len(reader.execute("SELECT evaluation FROM run").fetchall()) == 3
        migrated(database_url)
        assert reader.execute("SELECT evaluation FROM run").fetchall() == [("e1",)]
        owner.execute("CREATE TABLE another (n int4)")
        owner.commit()
        for name in ("run", "analysis_latency", "another"):
            with pytest.raises(errors.InsufficientPrivilege):
                reader.execute(sql.SQL("TABLE public.{}").format(sql.Identifier(name)))
        assert len(reader.execute("SELECT 1 FROM analysis_latency").fetchall()) > 0


def test_reader_sql_may_be_run_again(reader: psycopg.Connection[Any], database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(script(owner))
    assert reader.execute("SELECT evaluation FROM run").fetchall() == [("e1",)]


def test_reader_sql_may_be_run_before_there_are_views(database_url: str) -> None:
    """The migrations that make them grant them."""
    with as_reader(database_url) as reader:
        migrated(database_url)
        fill(database_url)
        assert reader.execute("SELECT evaluation FROM run").fetchall() == [("e1",)]
