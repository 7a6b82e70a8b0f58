"""The rows of a cluster's database, copied out and in as text: for every version of PostgreSQL.

Blocking. On TimescaleDB too: a hypertable is read and written as a table.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from mlscope.backup.archive import Reader, Writer
from mlscope.backup.errors import NewerBackup, NotEmpty

_TABLES = """
SELECT relname, array_agg(attname::text ORDER BY attnum) AS columns
FROM pg_class
JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
    AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND relname <> 'schema_version'
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')
GROUP BY relname
ORDER BY relname
"""
_FILE = re.compile(r"\d{4}_\w+")
_MIGRATIONS = "SELECT component, version FROM schema_version ORDER BY component, version"
_UNSAVED = """
SELECT run_key FROM run
WHERE recorded_at IS NOT NULL AND run_key NOT IN (SELECT run_key FROM saved_run)
"""

_NOTE_RUNS = "INSERT INTO saved_run SELECT unnest(%s::int8[]) ON CONFLICT DO NOTHING"
_NOTE_SEQUENCES = """
INSERT INTO saved_up_to SELECT unnest(%s::text[]), unnest(%s::int8[])
ON CONFLICT (stream) DO UPDATE SET sequence = excluded.sequence
"""


def save_database(address: str, writer: Writer) -> list[int]:
    """Write every table of the database at `address`, as of one moment, into a backup.

    Returns the run keys of the settled attempts in it, which `note_saved` takes once the backup is
    whole: none of a database that notes no backups since it is not migrated yet.
    """
    with _reading(address) as session:
        for component, version in session.execute(_MIGRATIONS).fetchall():
            writer.contents.migrations.setdefault(component, []).append(version)
        tables = columns_of_tables(session)
        for table, columns in tables.items():
            writer.contents.tables[table] = columns
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            query = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(
                names, sql.Identifier(table)
            )
            with writer.entry(_entry(table)) as entry, session.cursor().copy(query) as copy:
                for block in copy:
                    entry.write(bytes(block))
        rows = session.execute(_UNSAVED).fetchall() if "saved_run" in tables else []
        return [key for (key,) in rows]


def note_saved(address: str, run_keys: Sequence[int], last: Mapping[str, int]) -> None:
    """Note in the database at `address` that a backup has the attempts `run_keys`, if any.

    It has all batches up to the sequences `last`, by stream. A database that is not migrated yet
    notes nothing.
    """
    with psycopg.connect(address) as session:
        if run_keys:
            session.execute(_NOTE_RUNS, (run_keys,))
        if session.execute("SELECT to_regclass('saved_up_to')").fetchone() != (None,):
            session.execute(_NOTE_SEQUENCES, (list(last), list(last.values())))


def check_database(address: str, reader: Reader) -> None:
    """Check that a migrated database can take a backup. Raises NotEmpty, NewerBackup."""
    contents = reader.contents
    with _reading(address) as session:
        applied = set(map(tuple, session.execute(_MIGRATIONS).fetchall()))
        columns = columns_of_tables(session)
        lacks_migration = any(
            (component, version) not in applied
            for component, versions in contents.migrations.items()
            # Views, and what is for TimescaleDB or for plain PostgreSQL alone, hold no rows.
            for version in filter(_FILE.fullmatch, versions)
        )
        if lacks_migration or any(
            set(names) - {*columns.get(table, ())} for table, names in contents.tables.items()
        ):
            raise NewerBackup(contents.made_by)
        for table in contents.tables:
            query = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(sql.Identifier(table))
            if session.execute(query).fetchone():
                raise NotEmpty(f"rows in the table {table}")


def columns_of_tables(session: psycopg.Connection[Any]) -> dict[str, list[str]]:
    """Return the columns of every table of mlscope that `session` sees, by its name."""
    return dict(session.execute(_TABLES).fetchall())


def load_database(address: str, reader: Reader, names: Collection[str] = ()) -> list[int]:
    """Write the rows of a backup into an empty, migrated database, in one transaction.

    `address` is the database's, and `reader` reads the backup. Rows of the tables `names` are
    written, of all where none is named. Returns the run keys of the settled
    attempts in it that are not noted as saved.
    """
    with psycopg.connect(address) as session:
        for table, columns in reader.contents.tables.items():
            if names and table not in names:
                continue
            listed = sql.SQL(", ").join(map(sql.Identifier, columns))
            query = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), listed)
            with session.cursor().copy(query) as copy:
                for chunk in reader.chunks(_entry(table)):
                    copy.write(chunk)
        return [key for (key,) in session.execute(_UNSAVED).fetchall()]


def _entry(table: str) -> str:
    return f"database/{table}.copy"


@contextmanager
def _reading(address: str) -> Iterator[psycopg.Connection[Any]]:
    """Open a transaction that sees the database as of one moment and changes nothing."""
    with psycopg.connect(address) as session:
        session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        session.read_only = True
        yield session
