"""A plain database that is given the extension later: its rows stay, its views are made anew."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mlscope.database.migrations import migrations_in
from services.collector import store as collector
from services.collector.saving import prepared_of
from tests.services.collector.builders import REQUESTED_NS, a_trace, some_queries
from tests.timescale.starting import started

_PLAIN = list(migrations_in(Path(collector.__file__).with_name("migrations"), "postgresql"))
_NOTED = "INSERT INTO schema_version (component, version) VALUES ('collector', %s)"


def _make_plain(port: int) -> None:
    """Migrate as on a server without the extension, which this one has."""
    with psycopg.connect(_url(port), prepare_threshold=None) as session:
        session.execute(
            "CREATE TABLE schema_version (component text, version text, applied_at timestamptz"
            " NOT NULL DEFAULT now(), PRIMARY KEY (component, version))"
        )
        for migration in _PLAIN:
            session.execute(migration.sql.encode())
            session.execute(_NOTED, (migration.version,))


def _url(port: int) -> str:
    return f"postgresql://postgres@127.0.0.1:{port}/postgres"


@pytest.fixture
def plain_url(timescale_url: str, tmp_path: Path) -> Iterator[str]:
    """Run a database of its own; the shared one's fixture sees to what is installed."""
    folder = Path(__file__).parent
    with started(["node", "server.mjs"], folder, tmp_path / "log", _make_plain) as port:
        yield _url(port)


def _rows(session: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
    return session.execute(query.encode()).fetchall()


def test_its_rows_stay_and_its_trends_are_made_anew(plain_url: str) -> None:
    with closing(collector.Store(plain_url)) as store:
        store.save([prepared_of(batch, REQUESTED_NS) for batch in (a_trace(), some_queries())])
    with psycopg.connect(plain_url, autocommit=True, prepare_threshold=None) as session:
        before = _rows(session, "SELECT count(*), sum(span) FROM span")
    assert collector.migrate(plain_url) == "timescaledb"
    with psycopg.connect(plain_url, autocommit=True, prepare_threshold=None) as session:
        assert _rows(session, "SELECT count(*), sum(span) FROM span") == before
        kinds = _rows(
            session, "SELECT view_name FROM timescaledb_information.continuous_aggregates"
        )
        assert sorted(kinds) == [("query_trend",), ("span_trend",)]
        assert _rows(session, "SELECT queries FROM query_trend") == [(3,)]
        assert _rows(session, "SELECT count(*) FROM trend") == [(0,)]
