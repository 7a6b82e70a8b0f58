"""A role that read all tables before there were views loses that, whatever the owner may do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo

from tests.dashboards.reading_role import fill, migrated

ROLES = ("mlscope_reader", "keeper")


@pytest.fixture
def admin(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Lend a superuser's session beside `keeper`, who owns tables, and the role that reads."""
    with psycopg.connect(database_url, autocommit=True) as session:
        for role in ROLES:
            session.execute(_sql("CREATE ROLE {} LOGIN PASSWORD 'secret'", role))
        session.execute("GRANT USAGE, CREATE ON SCHEMA public TO keeper")
        yield session
        for role in ROLES:
            session.execute(_sql("DROP OWNED BY {} CASCADE", role))
            session.execute(_sql("DROP ROLE {}", role))


def _sql(text: str, name: str) -> sql.Composed:
    return sql.SQL(text).format(sql.Identifier(name))


def _as(address: str, role: str) -> str:
    return make_conninfo(address, user=role, password="secret")


@contextmanager
def _connected(address: str, role: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(_as(address, role), autocommit=True) as session:
        yield session


def _fill_as_of_old(address: str) -> None:
    """Store rows in tables of `keeper`, which the role reads as an older reader.sql let it."""
    migrated(_as(address, "keeper"))
    fill(_as(address, "keeper"))
    with _connected(address, "keeper") as owner:
        owner.execute("DROP SCHEMA IF EXISTS mlscope_reader CASCADE")
        owner.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO mlscope_reader")
        owner.execute(
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO mlscope_reader"
        )
        owner.execute("DELETE FROM schema_version WHERE version LIKE 'views-%'")


def _upgrade(address: str) -> None:
    """Migrate as `keeper`, and make a table afterwards."""
    migrated(_as(address, "keeper"))
    with _connected(address, "keeper") as owner:
        owner.execute("CREATE TABLE later (n int4)")


def _assert_tables_are_closed(reader: psycopg.Connection[Any]) -> None:
    found = reader.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND relkind IN ('r', 'p', 'v', 'm')"
    )
    names = {name for (name,) in found.fetchall()}
    assert {"run", "span", "trend", "analysis_latency", "schema_version", "later"} < names
    for name in names:
        with pytest.raises(errors.InsufficientPrivilege):
            reader.execute(_sql("TABLE public.{}", name))


def test_old_grants_go_where_the_owner_may_make_a_schema(
    database_url: str, admin: psycopg.Connection[Any]
) -> None:
    """What is left is read through the views."""
    admin.execute(_sql("GRANT CREATE ON DATABASE {} TO keeper", admin.info.dbname))
    _fill_as_of_old(database_url)
    with _connected(database_url, "mlscope_reader") as reader:
        assert len(reader.execute("SELECT evaluation FROM run").fetchall()) == 3
        _upgrade(database_url)
        _assert_tables_are_closed(reader)
        assert reader.execute("SELECT evaluation FROM run").fetchall() == [("e1",)]


def test_old_grants_go_where_the_owner_may_make_no_schema(
    database_url: str, admin: psycopg.Connection[Any]
) -> None:
    """Migrations go on, and the role reads nothing."""
    _fill_as_of_old(database_url)
    with _connected(database_url, "mlscope_reader") as reader:
        assert len(reader.execute("SELECT evaluation FROM run").fetchall()) == 3
        _upgrade(database_url)
        _assert_tables_are_closed(reader)
        with pytest.raises(errors.InsufficientPrivilege):
            reader.execute("SELECT evaluation FROM run")
    made = admin.execute("SELECT to_regnamespace('mlscope_reader') IS NULL")
    assert made.fetchall() == [(True,)]


def test_old_grants_go_where_the_schema_is_somebody_else_s(
    database_url: str, admin: psycopg.Connection[Any]
) -> None:
    """What that one keeps in it stays, and stays theirs to grant."""
    admin.execute(_sql("GRANT CREATE ON DATABASE {} TO keeper", admin.info.dbname))
    _fill_as_of_old(database_url)
    admin.execute("CREATE SCHEMA mlscope_reader")
    admin.execute("CREATE VIEW mlscope_reader.own AS SELECT 1 AS n")
    admin.execute("GRANT USAGE ON SCHEMA mlscope_reader TO keeper")
    with _connected(database_url, "mlscope_reader") as reader:
        _upgrade(database_url)
        _assert_tables_are_closed(reader)
        with pytest.raises(errors.InsufficientPrivilege):
            reader.execute("SELECT n FROM mlscope_reader.own")
    assert admin.execute("SELECT n FROM mlscope_reader.own").fetchall() == [(1,)]


def test_a_view_of_somebody_else_s_beside_those_of_mlscope_is_left_alone(
    database_url: str, admin: psycopg.Connection[Any]
) -> None:
    """Its owner says who reads it."""
    admin.execute(_sql("GRANT CREATE ON DATABASE {} TO keeper", admin.info.dbname))
    migrated(_as(database_url, "keeper"))
    admin.execute("CREATE VIEW mlscope_reader.own AS SELECT evaluation FROM mlscope_reader.run")
    admin.execute("DELETE FROM schema_version WHERE version LIKE 'views-%'")
    migrated(_as(database_url, "keeper"))
    fill(_as(database_url, "keeper"))
    assert admin.execute("SELECT evaluation FROM mlscope_reader.own").fetchall() == [("e1",)]
    with _connected(database_url, "mlscope_reader") as reader:
        assert reader.execute("SELECT evaluation FROM run").fetchall() == [("e1",)]
        with pytest.raises(errors.InsufficientPrivilege):
            reader.execute("SELECT evaluation FROM mlscope_reader.own")
