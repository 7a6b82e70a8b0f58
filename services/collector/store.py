"""The collector's database: stores many batches in one transaction, and the rows of runs.

Blocking; a service calls it in a thread. One `Store` is one connection, used by one caller at a
time, opened when needed and reopened after a loss.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from mlscope.database.connection import BEYOND_LIMITS, Database
from mlscope.database.migrations import Profile, apply
from mlscope.database.statements import read_statements
from services.collector.completeness import StoredRows, WaitingAttempt
from services.collector.errors import DatabaseAway, DatabaseFull, RefusedRows
from services.collector.rows import COPY_HEADER, COPY_TRAILER, storable
from services.collector.runs import RunRow

Marker = tuple[int, int, int]
"""run_key, kind, sequence: a batch's identity in the database."""

NAMES_REMEMBERED, RUNS_REMEMBERED = 10_000, 64
_MOST_PURGEABLE = 100
_BEGINNING = ("-infinity", 0)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch ready to store; `rows` is the body of a binary COPY into `table`."""

    marker: Marker
    table: str
    count: int
    rows: bytes
    names: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Purgeable:
    """An attempt whose messages may be purged."""

    run_key: int
    evaluation: str
    run: str
    #: whether no other attempt of its run can exist
    is_only_attempt: bool
    #: whether a backup has it
    is_saved: bool
    #: how many batches were stored when it was announced
    batches: int


def migrate(database_url: str) -> Profile:
    """Create or update the collector's tables; return the profile of the database."""
    return apply(database_url, "collector", Path(__file__).with_name("migrations"))


class Store:
    """One connection. Raises DatabaseAway, DatabaseFull, RefusedRows."""

    def __init__(self, database_url: str) -> None:
        self._database = Database(database_url)
        self._statements = read_statements(Path(__file__).with_name("queries.sql"))
        #: the numbers of the names that are stored, by run key, the newest run last
        self._named: OrderedDict[int, set[int]] = OrderedDict()
        self._purge_cursor: tuple[datetime | str, int] = _BEGINNING

    def save(self, batches: Sequence[Prepared]) -> int:
        """Store batches, each exactly once, and return the number of new rows."""
        with self._transaction() as session:
            new = self._mark(session, batches)
            for table in sorted({batch.table for batch in new}):
                with session.cursor().copy(self._sql(f"copy_{table}")) as copy:
                    rows = [batch.rows for batch in new if batch.table == table]
                    for chunk in (COPY_HEADER, *rows, COPY_TRAILER):
                        copy.write(chunk)
            names = self._name(session, new)
        self._remember(names)
        return sum(batch.count for batch in new)

    def _remember(self, names: Iterable[tuple[int, int]]) -> None:
        """Remember `names` that are stored, of few runs: one that is sent again adds nothing."""
        for run_key, number in names:
            self._named.setdefault(run_key, set()).add(number)
        while (
            len(self._named) > RUNS_REMEMBERED
            or sum(map(len, self._named.values())) > NAMES_REMEMBERED
        ):
            self._named.popitem(last=False)

    def end_run(self, row: RunRow) -> None:
        """Store how an attempt ended; repeated calls have no effect."""
        values = {
            name: Jsonb(value) if isinstance(value, dict | list) else value
            for name, value in row.items()
        }
        with self._transaction() as session:
            session.execute(self._sql("end_run"), values)
            if row["interrupted"] is not None:
                session.execute(self._sql("interrupt_run"), values)

    def waiting(self) -> list[WaitingAttempt]:
        """Return the attempts that ended and were not announced yet, oldest first.

        This includes interrupted attempts.
        """
        kinds = ("trace", "query", "output")
        return [
            WaitingAttempt(
                run_key=row["run_key"],
                evaluation=row["evaluation"],
                run=row["run"],
                attempt=row["attempt"],
                cause=row["cause"],
                announced=tuple(row[f"{kind}_batches"] for kind in kinds),
                stored=tuple(row[f"stored_{kind}_batches"] for kind in kinds),
                rows=StoredRows(row["stored_spans"], row["stored_queries"], row["stored_outputs"]),
                batches=row["batches"],
                is_interrupted=row["is_interrupted"],
                may_get_queries=row["may_get_queries"],
            )
            for row in self._rows("waiting_runs", {})
        ]

    def missing_runs(self, run_keys: Sequence[int]) -> list[int]:
        """Return those of `run_keys` that are not here with all of their batches."""
        rows = self._rows("missing_runs", {"run_keys": list(run_keys)})
        return [row["run_key"] for row in rows]

    def unsaved_evaluations(
        self, evaluations: Sequence[str] = (), left: Sequence[str] = ()
    ) -> tuple[int, int]:
        """Return how many evaluations have rows that no backup has.

        These have an attempt that ended, or are among those `evaluations` of which other rows are
        known that no backup has. The second number counts those of which the log has some such
        rows no more either, those `left` among them.
        """
        values = {"evaluations": list(evaluations), "left": list(left)}
        (row,) = self._rows("unsaved_evaluations", values)
        return row["unsaved"], row["database_only"]

    def saved_up_to(self) -> dict[str, int]:
        """Return the sequences up to which a backup has all batches, by stream."""
        return {row["stream"]: row["sequence"] for row in self._rows("saved_up_to", {})}

    def left_up_to(self) -> dict[str, int]:
        """Return the sequences up to which batches left that no backup had, by stream."""
        return {row["stream"]: row["sequence"] for row in self._rows("left_up_to", {})}

    def note_left_up_to(self, stream: str, sequence: int) -> None:
        """Note that messages leave `stream` up to `sequence` that no backup has."""
        with self._transaction() as session:
            values = {"stream": stream, "sequence": sequence}
            session.execute(self._sql("note_left_up_to"), values)

    def forget_stream(self, stream: str) -> None:
        """Forget what was noted of the messages of `stream`, which was made anew."""
        with self._transaction() as session:
            session.execute(self._sql("forget_stream"), {"stream": stream})

    def has_left_unsaved(self) -> bool:
        """Tell whether messages left a stream that, as rows, no backup has since."""
        return bool(self._rows("has_left_unsaved", {})[0]["has_left"])

    def unknown_runs(self, run_keys: Sequence[int], *, are_interruptions: bool) -> list[int]:
        """Return those of `run_keys` that have no row.

        Unless the attempts' ends `are_interruptions`, a row is none that says only that the attempt
        was given up: what its agent says fills it in.
        """
        values = {"run_keys": list(run_keys), "are_interruptions": are_interruptions}
        rows = self._rows("unknown_runs", values)
        return [row["run_key"] for row in rows]

    def batches_of(self, run_key: int, announced: Sequence[int]) -> tuple[int, int, int]:
        """Return how many of an attempt's batches of spans, queries and outputs are stored.

        Batches beyond the numbers that were `announced` came late and do not count.
        """
        names = ("trace_batches", "query_batches", "output_batches")
        values = {"run_key": run_key, **dict(zip(names, announced, strict=True))}
        (row,) = self._rows("count_batches", values)
        return row["trace"], row["query"], row["output"]

    def interrupt_runs(self, causes: Mapping[int, str]) -> int:
        """Mark attempts that were given up, with `causes` by run key; return how many were not."""
        values = {"run_keys": list(causes), "causes": list(causes.values())}
        with self._transaction() as session:
            return session.execute(self._sql("interrupt_runs"), values).rowcount

    def server_start(self) -> str:
        """Return when the database's server was started, by its own clock: each start differs."""
        with self._transaction() as session:
            return self._started(session)

    def stored_up_to(self) -> dict[str, int]:
        """Return the sequences up to which all messages are rows, by the name of their durable."""
        return {row["durable"]: row["sequence"] for row in self._rows("stored_up_to", {})}

    def note_stored_up_to(self, sequences: Mapping[str, int], server_start: str) -> None:
        """Note that all messages of durables up to `sequences` are rows in this database.

        Another one, whose server was started at another time than `server_start`, may lack them:
        nothing is noted there.
        """
        values = {"durables": list(sequences), "sequences": list(sequences.values())}
        with self._transaction() as session:
            if self._started(session) == server_start:
                session.execute(self._sql("note_stored_up_to"), values)

    def failed_queries(self, run_key: int) -> int:
        """Return the number of stored queries of an attempt that failed."""
        return int(self._rows("failed_queries", {"run_key": run_key})[0]["failed"])

    def settle(self, run_key: int, state: str, batches: int) -> None:
        """Record that the attempt `run_key` was announced as `recorded`, `incomplete` or so.

        `state` is `recorded`, `incomplete` or `interrupted`; `batches` is the number of batches
        stored at that time. Later batches are stored as well, and the view `late` counts them.
        """
        was = "interrupted" if state == "interrupted" else "ended"
        values = {"run_key": run_key, "state": state, "was": was, "batches": batches}
        with self._transaction() as session:
            session.execute(self._sql("settle_run"), values)

    def purgeable(self) -> list[Purgeable]:
        """Return attempts that were announced and whose messages are not purged yet.

        Each call returns the next page of them; after the last page, the first one again.
        """
        ended_at, run_key = self._purge_cursor
        rows = self._rows(
            "purgeable_runs",
            {
                "behind": ended_at,
                "behind_key": run_key,
                "most": _MOST_PURGEABLE,
            },
        )
        ends = [(row.pop("ended_at"), row["run_key"]) for row in rows]
        self._purge_cursor = ends[-1] if len(ends) == _MOST_PURGEABLE else _BEGINNING
        return [Purgeable(**row) for row in rows]

    def purged(self, run_keys: Sequence[int]) -> None:
        """Record that the messages of attempts were purged."""
        with self._transaction() as session:
            session.execute(self._sql("purged_runs"), {"run_keys": list(run_keys)})

    def unjudged_runs(self, after: int, at_most: int) -> dict[int, str]:
        """Return the evaluations of attempts of which it is not noted who may see them, by run key.

        Only `at_most` of them, with keys above `after`.
        """
        rows = self._rows("unjudged_runs", {"after": after, "most": at_most})
        return {row["run_key"]: row["evaluation"] for row in rows}

    def note_visibility(self, notes: Mapping[int, tuple[str, bool]]) -> None:
        """Note the evaluations of attempts, and whether everybody may see them, by run key."""
        evaluations, are_visible = zip(*notes.values(), strict=True)
        values = {
            "run_keys": list(notes),
            "evaluations": list(evaluations),
            "are_visible": list(are_visible),
        }
        with self._transaction() as session:
            session.execute(self._sql("note_visibility"), values)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def _mark(
        self, session: psycopg.Connection[Any], batches: Sequence[Prepared]
    ) -> list[Prepared]:
        by_marker = {batch.marker: batch for batch in batches}
        run_keys, kinds, sequences = zip(*by_marker, strict=True)
        claimed = session.execute(
            self._sql("mark_batches"),
            {
                "run_keys": list(run_keys),
                "kinds": list(kinds),
                "sequences": list(sequences),
                "counts": [batch.count for batch in by_marker.values()],
            },
        )
        return [by_marker[marker] for marker in sorted(claimed.fetchall())]

    def _name(
        self, session: psycopg.Connection[Any], batches: Sequence[Prepared]
    ) -> set[tuple[int, int]]:
        texts = {
            (batch.marker[0], number): text
            for batch in batches
            for number, text in batch.names
            if number not in self._named.get(batch.marker[0], ())
        }
        if texts:
            run_keys, names = zip(*texts, strict=True)
            values = {
                "run_keys": list(run_keys),
                "names": list(names),
                "texts": [storable(text) for text in texts.values()],
            }
            session.execute(self._sql("name_spans"), values)
        return set(texts)

    def _rows(self, statement: str, values: Mapping[str, object]) -> list[dict[str, Any]]:
        with self._transaction() as session:
            cursor = session.cursor(row_factory=dict_row)
            return cursor.execute(self._sql(statement), values).fetchall()

    def _started(self, session: psycopg.Connection[Any]) -> str:
        (started,) = session.execute(self._sql("server_start")).fetchone() or ("",)
        return str(started)

    def _sql(self, name: str) -> bytes:
        return self._statements[name].encode()

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a transaction; translate psycopg's errors."""
        try:
            with self._database.transaction() as session:
                yield session
        except (errors.DiskFull, errors.OutOfMemory) as error:
            raise DatabaseFull(str(error)) from error
        except (psycopg.DataError, psycopg.IntegrityError, *BEYOND_LIMITS) as error:
            raise RefusedRows(str(error)) from error
        except (psycopg.OperationalError, psycopg.InternalError, errors.UndefinedTable) as error:
            raise DatabaseAway(str(error)) from error
