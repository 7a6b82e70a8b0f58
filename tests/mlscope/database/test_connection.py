"""One connection: opened when needed, anew after a loss, never left open."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from mlscope.database.connection import Database


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


def _backend(database: Database) -> int:
    with database.transaction() as session:
        return session.info.backend_pid


def test_one_connection_serves_many_transactions(database: Database) -> None:
    assert _backend(database) == _backend(database)


def test_an_error_rolls_back_and_keeps_the_connection(database: Database) -> None:
    backend = _backend(database)
    with pytest.raises(psycopg.errors.DivisionByZero), database.transaction() as session:
        session.execute("CREATE TABLE one (n int4); SELECT 1 / 0")
    with database.transaction() as session:
        assert session.execute("SELECT to_regclass('one')").fetchone() == (None,)
    assert _backend(database) == backend


def test_a_lost_connection_is_opened_anew(database: Database, database_url: str) -> None:
    backend = _backend(database)
    with psycopg.connect(database_url) as session:
        session.execute("SELECT pg_terminate_backend(%s)", (backend,))
    with pytest.raises(psycopg.OperationalError):
        _backend(database)
    assert _backend(database) != backend


def test_closing_waits_for_the_transaction_under_way(database: Database) -> None:
    begun, may_end = threading.Event(), threading.Event()
    seen: list[int] = []

    def work() -> None:
        with database.transaction() as session:
            begun.set()
            may_end.wait(10)
            seen.extend(session.execute("SELECT 1").fetchone() or ())

    worker = threading.Thread(target=work)
    worker.start()
    begun.wait(10)
    threading.Timer(0.1, may_end.set).start()
    database.close()
    worker.join()
    assert seen == [1]
    assert database._connection is None


def _number(session: psycopg.Connection[Any]) -> int:
    """Return the number of the session's process, as the server says it."""
    row = session.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def test_what_only_reads_is_read_again_where_the_kept_connection_was_dead(
    database: Database, database_url: str
) -> None:
    first = database.read(_number)
    with psycopg.connect(database_url) as session:
        session.execute("SELECT pg_terminate_backend(%s)", (first,))
    assert database.read(_number) not in (0, first)


def test_an_error_that_leaves_the_connection_is_not_tried_again(database: Database) -> None:
    database.read(_number)
    tries = []

    def fail(session: psycopg.Connection[Any]) -> None:
        tries.append(session)
        session.execute("SET LOCAL statement_timeout = 1")
        session.execute("SELECT pg_sleep(60)")

    with pytest.raises(psycopg.errors.QueryCanceled):
        database.read(fail)
    assert len(tries) == 1


def test_a_server_that_is_not_there_is_asked_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    nowhere = Database(f"postgresql://nobody@127.0.0.1:{port}/none")
    with pytest.raises(psycopg.OperationalError, match=str(port)):
        nowhere.read(_number)
    nowhere.close()
