"""Named SQL statements on a connection, which is opened when needed and again after a loss."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.rows import dict_row, tuple_row

from mlscope.database.connection import BEYOND_LIMITS, Database
from mlscope.database.statements import read_statements
from services.analyzer.errors import DatabaseAway

T = TypeVar("T")


class Session:
    """A connection in a transaction, with the named statements."""

    def __init__(self, connection: psycopg.Connection[Any], statements: Mapping[str, str]) -> None:
        """Run `statements` on `connection`."""
        self._connection = connection
        self._statements = statements

    def maps(self, name: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a statement as maps; `values` are its parameters."""
        cursor = self._connection.cursor(row_factory=dict_row, binary=True)
        return cursor.execute(self._statements[name].encode(), values).fetchall()

    def maps_for(self, name: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a statement as maps, by a plan that is made for these `values`.

        A prepared statement may get a plan for any values, which compares each row with each entry
        of a long list, where a plan for the list has it hashed.
        """
        cursor = self._connection.cursor(row_factory=dict_row, binary=True)
        statement = self._statements[name].encode()
        return cursor.execute(statement, values, prepare=False).fetchall()

    def rows(self, name: str, values: Mapping[str, Any]) -> psycopg.Cursor[tuple[Any, ...]]:
        """Return a cursor of a statement's rows as tuples; `values` are its parameters."""
        cursor = self._connection.cursor(row_factory=tuple_row, binary=True)
        return cursor.execute(self._statements[name].encode(), values)

    def execute(self, name: str, values: Mapping[str, Any]) -> None:
        """Execute a statement without rows; `values` are its parameters."""
        self._connection.execute(self._statements[name].encode(), values)

    def copy(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Write rows with a COPY statement."""
        with self._connection.cursor().copy(self._statements[name].encode()) as copy:
            for row in rows:
                copy.write_row(row)


class Sessions:
    """Opens sessions on one connection; they raise DatabaseAway where it is lost."""

    def __init__(self, database_url: str, statements: Path) -> None:
        """Connect to `database_url`; `statements` is the file of named statements."""
        self._database = Database(database_url)
        self._statements = read_statements(statements)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Open a session whose changes are committed at its end."""
        with _translated_errors(), self._database.transaction() as connection:
            yield Session(connection, self._statements)

    def read(self, query: Callable[[Session], T]) -> T:
        """Return the result of `query`, which only reads and may be called again after a loss."""
        with _translated_errors():
            return self._database.read(
                lambda connection: query(Session(connection, self._statements))
            )

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Raise DatabaseAway for psycopg's errors of a lost or unprovisioned database."""
    try:
        yield
    except BEYOND_LIMITS:
        raise
    except (psycopg.OperationalError, psycopg.InternalError, errors.UndefinedTable) as error:
        raise DatabaseAway(str(error)) from error
