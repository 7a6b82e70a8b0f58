"""Migrations: in order, once, all or nothing, and the profile's own after the common ones."""

from pathlib import Path

import psycopg
import pytest

from mlscope.migrations import Migration, apply, migrations_in, profile_of


def _write(folder: Path, **files: str) -> Path:
    for name, sql in files.items():
        path = folder / f"{name.replace('__', '/')}.sql"
        path.parent.mkdir(exist_ok=True)
        path.write_text(sql)
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
