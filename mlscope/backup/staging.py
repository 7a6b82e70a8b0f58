"""Copies of a database's tables beside them: filled anew, then put in their place (I/O).

Blocking. The tables stay as they are until rows of the copies replace theirs, in one transaction.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mlscope.backup.database import columns_of_tables
from mlscope.backup.errors import RebuildRuns

_SCHEMA = "mlscope_rebuilt"
_LOCK = 0x72656275696C64
"""The key of the advisory lock for rebuilding: `rebuild` in ASCII."""
_MOST_DECOMPRESSED = "timescaledb.max_tuples_decompressed_per_dml_transaction"
"""A setting of TimescaleDB that limits what a transaction deletes of old rows; 0 is no limit."""
_RUN_TABLES = ("batch", "span", "span_name", "query", "output", "run")
_TREES = ("span_tree",)
_DRAWN = ("timeline",)
_EVALUATION_TABLES = ("analysis", "analysis_row", "headline")
_NOT_SETTLED = "SELECT run_key FROM {place}.run WHERE recorded_at IS NULL"
_GROWN = """
SELECT run_key, evaluation FROM {place}.run AS rebuilt
WHERE EXISTS (
    SELECT FROM {home}.batch AS stored
    WHERE stored.run_key = rebuilt.run_key AND NOT EXISTS (
        SELECT FROM {place}.batch AS read
        WHERE (read.run_key, read.kind, read.sequence)
            = (stored.run_key, stored.kind, stored.sequence)
    )
)
"""
_SIBLINGS = """
SELECT run_key FROM {home}.run
WHERE evaluation IN (SELECT evaluation FROM {place}.run)
    AND run_key NOT IN (SELECT run_key FROM {place}.run)
"""


@dataclass(frozen=True, slots=True)
class Staging:
    """Copies of the tables of the database at `home_address`; `address` leads to them."""

    home_address: str
    address: str
    home: str
    columns: dict[str, list[str]]
    schema: str = _SCHEMA

    def keep_complete(self) -> dict[int, str]:
        """Delete attempts that are not settled, or lack batches here that are at home.

        Beside those that stay, the other attempts of their evaluations are copied from home, since
        tables are computed of all. Returns the evaluation of each that stays, by run key.
        """
        with psycopg.connect(self.home_address) as session:
            for keys in (self._keys(session, _NOT_SETTLED), [*self._evaluations(session, _GROWN)]):
                self._delete(session, _SCHEMA, _RUN_TABLES, keys)
            query = "SELECT run_key, evaluation FROM {place}.run ORDER BY run_key"
            complete = self._evaluations(session, query)
            siblings = self._keys(session, _SIBLINGS)
            # The streams may have batches of an attempt without its end, which makes its row.
            self._delete(session, _SCHEMA, _RUN_TABLES, siblings)
            self._copy(session, (self.home, _SCHEMA), _RUN_TABLES, siblings)
        return complete

    def at_home(self, run_keys: Collection[int]) -> set[int]:
        """Return those of `run_keys` that are settled at home."""
        query = "SELECT run_key FROM {home}.run WHERE recorded_at IS NOT NULL AND run_key = ANY(%s)"
        with psycopg.connect(self.home_address) as session:
            return set(self._keys(session, query, list(run_keys)))

    def lacks(self, run_keys: Collection[int]) -> bool:
        """Tell whether any of `run_keys` is settled at home, and is not settled here."""
        query = """
            SELECT run_key FROM {home}.run
            WHERE recorded_at IS NOT NULL AND run_key = ANY(%s)
                AND run_key NOT IN (SELECT run_key FROM {place}.run WHERE recorded_at IS NOT NULL)
        """
        with psycopg.connect(self.home_address) as session:
            return bool(self._keys(session, query, list(run_keys)))

    def replace(self, run_keys: Collection[int], evaluations: Collection[str]) -> dict[int, str]:
        """Put attempts, and the tables of `evaluations`, in the place of those at home.

        Attempts that got batches at home meanwhile stay, even if they are of `run_keys`, and so do
        the tables of their evaluations. Returns the evaluation of each of these, by run key.
        """
        with psycopg.connect(self.home_address) as session:
            session.execute("SELECT set_config(%s, '0', true)", (_MOST_DECOMPRESSED,))
            # An analyzer writes to `analysis` first: one lock keeps it from all that it writes.
            lock = "LOCK TABLE {home}.run, {home}.batch, {home}.analysis IN EXCLUSIVE MODE"
            session.execute(self._named(lock))
            grown = self._evaluations(session, _GROWN)
            replaced = sorted({*run_keys} - grown.keys())
            analyzed = sorted({*evaluations} - {*grown.values()})
            query = "SELECT run_key FROM {place}.run WHERE evaluation = ANY(%s)"
            self._delete(session, self.home, _DRAWN, replaced)
            for tables, keys in (
                (_RUN_TABLES, replaced),
                (_TREES, self._keys(session, query, analyzed)),
                (_EVALUATION_TABLES, analyzed),
            ):
                self._delete(session, self.home, tables, keys)
                self._copy(session, (_SCHEMA, self.home), tables, keys)
        return grown

    def _evaluations(self, session: psycopg.Connection[Any], query: str) -> dict[int, str]:
        return dict(session.execute(self._named(query)).fetchall())

    def _keys(self, session: psycopg.Connection[Any], query: str, *values: object) -> list[int]:
        return [key for (key,) in session.execute(self._named(query), values).fetchall()]

    def _named(self, query: str) -> sql.Composed:
        place, home = sql.Identifier(_SCHEMA), sql.Identifier(self.home)
        return sql.SQL(query).format(place=place, home=home)

    def _delete(
        self,
        session: psycopg.Connection[Any],
        schema: str,
        tables: Collection[str],
        keys: Sequence[int] | Sequence[str],
    ) -> None:
        for table in tables:
            query = sql.SQL("DELETE FROM {} WHERE {} = ANY(%s)")
            session.execute(query.format(sql.Identifier(schema, table), _key_of(table)), (keys,))

    def _copy(
        self,
        session: psycopg.Connection[Any],
        schemas: tuple[str, str],
        tables: Collection[str],
        keys: Sequence[int] | Sequence[str],
    ) -> None:
        source, target = schemas
        for table in tables:
            names = sql.SQL(", ").join(map(sql.Identifier, self.columns[table]))
            query = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE {} = ANY(%s)").format(
                sql.Identifier(target, table),
                names,
                names,
                sql.Identifier(source, table),
                _key_of(table),
            )
            session.execute(query, (keys,))


def _key_of(table: str) -> sql.Identifier:
    return sql.Identifier("evaluation" if table in _EVALUATION_TABLES else "run_key")


@contextmanager
def staged(address: str) -> Iterator[Staging]:
    """Lend empty copies of the tables of a migrated database; at the end they are dropped.

    `address` is the database's. Raises RebuildRuns, and psycopg's errors.
    """
    with psycopg.connect(address, autocommit=True) as session:
        (is_ours,) = session.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).fetchone() or (0,)
        if not is_ours:
            raise RebuildRuns
        (home,) = session.execute("SELECT current_schema()").fetchone() or ("public",)
        columns = columns_of_tables(session)
        place = sql.Identifier(_SCHEMA)
        drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(place)
        session.execute(drop)  # which a rebuild that died left
        session.execute(sql.SQL("CREATE SCHEMA {}").format(place))
        try:
            for table in columns:
                query = sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(
                    sql.Identifier(_SCHEMA, table), sql.Identifier(home, table)
                )
                session.execute(query)
            options = str(conninfo_to_dict(address).get("options") or "")
            path = f"{options} -c search_path={_SCHEMA},{home}".strip()
            yield Staging(address, make_conninfo(address, options=path), home, columns)
        finally:
            session.execute(drop)
            # The server ends a closed session a moment later: the next rebuild may be there first.
            session.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))
