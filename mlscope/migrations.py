"""Database schemas as numbered SQL files: `0001_spans.sql`, applied once and in order.

Files in the folder itself are for every database. Those in its `timescaledb/` follow where that
extension can be had; those in `postgresql/` give the same names where it cannot.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import errors

from mlscope.errors import WrongEncoding

Profile = Literal["postgresql", "timescaledb"]

_LOCK = 0x6D6C73636F7065
"""The advisory lock under which one provisioner at a time changes schemas: `mlscope`."""

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
    """SQL to apply once; a file's `version` is its path below the folder, without `.sql`."""

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
    """Bring `component`'s schema up to date, all or nothing, and say which profile it has.

    Safe in parallel and again: an advisory lock lets one through at a time. `generated` follows
    the folder's files. Raises WrongEncoding before anything is changed.
    """
    with psycopg.connect(database_url) as session:
        _check_encoding(session)
        session.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        session.execute(_VERSIONS)
        profile = _profile_of(session)
        known = session.execute(
            "SELECT version FROM schema_version WHERE component = %s", (component,)
        )
        applied = {row[0] for row in known.fetchall()}
        for migration in (*migrations_in(folder, profile), *generated):
            if migration.version not in applied:
                session.execute(migration.sql.encode())
                session.execute(
                    "INSERT INTO schema_version (component, version) VALUES (%s, %s)",
                    (component, migration.version),
                )
    return profile


def profile_of(database_url: str) -> Profile:
    """Say what a migrated database runs on."""
    with psycopg.connect(database_url) as session:
        return "timescaledb" if _has_extension(session, "pg_extension", "extname") else "postgresql"


def _check_encoding(session: psycopg.Connection[Any]) -> None:
    # SQL_ASCII makes psycopg return text as bytes; others lack characters that names may have.
    encoding = session.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise WrongEncoding(session.info.dbname, str(encoding))


def _profile_of(session: psycopg.Connection[Any]) -> Profile:
    if not _has_extension(session, "pg_available_extensions", "name"):
        return "postgresql"
    try:
        with session.transaction():
            session.execute("CREATE EXTENSION IF NOT EXISTS timescaledb CASCADE")
    except (errors.InsufficientPrivilege, errors.ObjectNotInPrerequisiteState):
        # The files are there, but this role or this server's settings cannot load them.
        return "postgresql"
    return "timescaledb"


def _has_extension(session: psycopg.Connection[Any], catalog: str, column: str) -> bool:
    query = f"SELECT 1 FROM {catalog} WHERE {column} = 'timescaledb'"  # noqa: S608
    return session.execute(query.encode()).fetchone() is not None
