"""Database schemas as numbered SQL files, such as `0001_spans.sql`, each applied once and in order.

Files in the folder itself are for every database. Those in `timescaledb/` follow if that extension
is available; otherwise those in `postgresql/` follow, which define the same names.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import errors

from mlscope.database.reader import drop_views, make_views
from mlscope.errors import OwnViewInTheWay, TlsMissing, WrongEncoding

_log = logging.getLogger(__name__)
Profile = Literal["postgresql", "timescaledb"]

_LOCK = 0x6D6C73636F7065
"""The key of the advisory lock for changing schemas: `mlscope` in ASCII."""

_VERSIONS = """
CREATE TABLE IF NOT EXISTS schema_version (
    component text NOT NULL,
    version text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (component, version)
);
COMMENT ON TABLE schema_version IS 'Migrations applied, by the service that owns them.';
COMMENT ON COLUMN schema_version.component IS 'The service whose tables these are.';
COMMENT ON COLUMN schema_version.version IS 'The file, below its profile''s folder if in one.';
COMMENT ON COLUMN schema_version.applied_at IS 'When it was applied.';
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """SQL that is applied once; a file's `version` is its path in the folder without `.sql`."""

    version: str
    sql: str


def migrations_in(folder: Path, profile: Profile) -> Iterator[Migration]:
    """Yield the migrations of a folder for one profile, in the order they are applied."""
    for place, prefix in ((folder, ""), (folder / profile, f"{profile}/")):
        for path in sorted(place.glob("*.sql")):
            yield Migration(f"{prefix}{path.stem}", path.read_text())


def apply(
    database_url: str, component: str, folder: Path, generated: Sequence[Migration] = ()
) -> Profile:
    """Apply the missing migrations of `component` in one transaction; return the profile.

    The migrations are the files in `folder`, then `generated`; they are applied to the database at
    `database_url`. After them the views for the role `mlscope_reader` are made anew. An advisory
    lock makes parallel and repeated calls safe. Raises TlsMissing and WrongEncoding before anything
    is changed, and OwnViewInTheWay, which leaves this component's tables as they were.
    """
    profile = _install_extension(database_url)
    with psycopg.connect(database_url) as session:
        session.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        session.execute(_VERSIONS)
        rows = session.execute(
            "SELECT version FROM schema_version WHERE component = %s", (component,)
        )
        applied = {row[0] for row in rows.fetchall()}
        migrations = (*migrations_in(folder, profile), *generated)
        missing = [migration for migration in migrations if migration.version not in applied]
        if missing:
            _change(session, component, missing)
    return profile


def _change(session: psycopg.Connection[Any], component: str, missing: Sequence[Migration]) -> None:
    """Apply the `missing` migrations, and make the views anew. Raises OwnViewInTheWay."""
    dependents = drop_views(session)
    try:
        for migration in missing:
            session.execute(migration.sql.encode())
            session.execute(
                "INSERT INTO schema_version (component, version) VALUES (%s, %s)",
                (component, migration.version),
            )
        make_views(session)
    except errors.DependentObjectsStillExist as error:
        raise OwnViewInTheWay(str(error.diag.message_detail or error)) from error
    except (errors.FeatureNotSupported, errors.InvalidTableDefinition) as error:
        # A column of another type or name, below a view that stayed.
        if dependents:
            raise OwnViewInTheWay(f"{error.diag.message_primary}\n{dependents}") from error
        raise


def profile_of(database_url: str) -> Profile:
    """Return the profile of a migrated database."""
    with psycopg.connect(database_url) as session:
        return "timescaledb" if _has_extension(session, "pg_extension", "extname") else "postgresql"


def _install_extension(database_url: str) -> Profile:
    """Install the extension TimescaleDB if it is available; return the resulting profile.

    It has a connection of its own, because a server that has the extension's files and does not
    preload them closes the connection. Raises TlsMissing, WrongEncoding.
    """
    try:
        connection = psycopg.connect(database_url)
    except psycopg.OperationalError as error:
        # libpq's own text: the server refused TLS before it could send an SQLSTATE.
        if "server does not support SSL" in str(error):
            raise TlsMissing from error
        raise
    with connection as session:
        # SQL_ASCII makes psycopg return text as bytes; other encodings lack some characters.
        encoding = session.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise WrongEncoding(session.info.dbname, str(encoding))
        if _has_extension(session, "pg_extension", "extname"):
            return "timescaledb"
        if not _has_extension(session, "pg_available_extensions", "name"):
            return "postgresql"
    try:
        with psycopg.connect(database_url) as session:
            session.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            session.execute("CREATE EXTENSION IF NOT EXISTS timescaledb CASCADE")
    except psycopg.DatabaseError as error:
        # This role or the server's settings prevent it: what is stored needs no extension.
        _warn_of_plain_tables(" ".join(str(error).split()))
        return "postgresql"
    return "timescaledb"


@lru_cache(maxsize=1)
def _warn_of_plain_tables(reason: str) -> None:
    """Warn once in a process that plain tables are made, for a `reason` of the server."""
    _log.warning(
        "the server has TimescaleDB and could not load it, so tables are plain ones, without "
        "compression and retention: %s. To fix it, set shared_preload_libraries = 'timescaledb', "
        "restart the server, and run `mlscope provision` as a role that may create extensions",
        reason,
    )


def _has_extension(session: psycopg.Connection[Any], catalog: str, column: str) -> bool:
    query = f"SELECT 1 FROM {catalog} WHERE {column} = 'timescaledb'"  # noqa: S608
    return session.execute(query.encode()).fetchone() is not None
