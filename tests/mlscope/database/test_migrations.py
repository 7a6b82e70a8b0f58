"""Migrations: in order, once, all or nothing, and the profile's own after the common ones."""

from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cli.cluster.servers.postgres import Postgres
from mlscope.database.migrations import Migration, apply, migrations_in, profile_of
from mlscope.errors import WrongEncoding


def _write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.sql"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


def test_common_files_come_first_then_the_profiles(tmp_path: Path) -> None:
    _write(tmp_path, b2="", a1="", postgresql__a0="", timescaledb__z="")
    versions = [each.version for each in migrations_in(tmp_path, "postgresql")]
    assert versions == ["a1", "b2", "postgresql/a0"]


def test_each_is_applied_once(tmp_path: Path, database_url: str) -> None:
    folder = _write(tmp_path, a1="CREATE TABLE one (n int4)")
    generated = [Migration("views", "INSERT INTO one VALUES (1)")]
    for _ in range(2):
        assert apply(database_url, "test", folder, generated) == "postgresql"
    with psycopg.connect(database_url) as session:
        assert session.execute("TABLE one").fetchall() == [(1,)]
    assert profile_of(database_url) == "postgresql"


def test_a_broken_one_leaves_nothing(tmp_path: Path, database_url: str) -> None:
    folder = _write(tmp_path, a1="CREATE TABLE one (n int4)", a2="SELECT torn")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        apply(database_url, "test", folder)
    with psycopg.connect(database_url) as session:
        found = session.execute("SELECT to_regclass('one'), to_regclass('schema_version')")
        assert found.fetchall() == [(None, None)]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_without_unicode_is_refused_and_the_fix_told_works(
    tmp_path: Path, postgres: Postgres, encoding: str
) -> None:
    name = f'odd "{encoding}"'
    with psycopg.connect(postgres.admin_url(), autocommit=True) as session:
        session.execute(_made(name, encoding))
        try:
            with pytest.raises(WrongEncoding) as refused:
                apply(_at(postgres, name), "test", tmp_path)
            session.execute(refused.value.fix.encode())
            assert apply(_at(postgres, f"{name}_utf8"), "test", tmp_path) == "postgresql"
        finally:
            for each in (name, f"{name}_utf8"):
                session.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(each)))
    for said in (name, encoding, "UTF8", "MLSCOPE_DATABASE_URL", refused.value.fix):
        assert said in str(refused.value)


def test_a_refused_database_stays_as_it_was(tmp_path: Path, postgres: Postgres) -> None:
    folder = _write(tmp_path, a1="CREATE TABLE one (n int4)")
    with psycopg.connect(postgres.admin_url(), autocommit=True) as session:
        session.execute(_made("plain", "SQL_ASCII"))
        try:
            with pytest.raises(WrongEncoding):
                apply(_at(postgres, "plain"), "test", folder)
            with psycopg.connect(_at(postgres, "plain")) as other:
                found = other.execute("SELECT to_regclass('schema_version') IS NULL").fetchall()
        finally:
            session.execute("DROP DATABASE plain")
    assert found == [(True,)]


def _made(name: str, encoding: str) -> sql.Composed:
    made = "CREATE DATABASE {} ENCODING {} LOCALE 'C' TEMPLATE template0"
    return sql.SQL(made).format(sql.Identifier(name), sql.Literal(encoding))


def _at(postgres: Postgres, name: str) -> str:
    return make_conninfo(postgres.admin_url(), dbname=name)
