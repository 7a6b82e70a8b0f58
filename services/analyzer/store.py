"""The analyzer's database: rows in, tables out. Blocking; a service calls it in a thread.

What is read is bounded; what was left out is said in the frames' caveats.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
from psycopg import errors
from psycopg.rows import dict_row, tuple_row
from psycopg.types.json import Jsonb

import schemas.analysis
from mlscope.counts import many
from mlscope.database import Database
from mlscope.migrations import Profile, apply
from mlscope.statements import read_statements
from schemas.analysis import Column, FailedQuery, Predictions, Table, Tables
from schemas.evaluation import MeasuredRun
from schemas.identity import run_key
from schemas.level import Level
from schemas.request import ShowPredictions, ShowTables
from services.analyzer.bounds import Bounds
from services.analyzer.columns import frame_of, natures_of, with_names
from services.analyzer.divergence import Side
from services.analyzer.errors import DatabaseAway, NoRuns, NoSuchRun
from services.analyzer.frames import LAYER_LEVEL, ROOT_LEVEL, Frames, Run, RunRow, whole_queries
from services.analyzer.predictions import Prediction, prediction_of
from services.analyzer.row_schemas import (
    COUNTER_SCHEMA,
    FAILURE_SCHEMA,
    LAYER_SCHEMA,
    MOST_COUNTERS,
    OUTPUT_SCHEMA,
    QUERY_SCHEMA,
    SERIES_SCHEMA,
    SPAN_SCHEMA,
)
from services.analyzer.tables import ANALYSES
from services.analyzer.views import migrations_of

MOST_ROWS = 10_000
"""Rows of a table that are read for one answer; those behind them are asked for by offset."""

_HARDWARE_LEVEL = int(Level.HARDWARE)
_PART = 50_000
"""Rows of samples that are Python objects at a time."""

_KINDS = {
    "spans": "spans",
    "queries": "queries",
    "outputs": "outputs",
    "samples": "sampled values",
    "named_layers": "spans that name their layer",
}
"""Kinds of rows that are bounded, as caveats call them."""

_NATURES = {"span": pl.Int64} | {
    name: kind for name, kind in LAYER_SCHEMA.items() if name not in ("run_key", "layer", "name")
}


def migrate(database_url: str) -> Profile:
    """Make or bring up to date the analyzer's tables and views; say which profile there is."""
    folder = Path(__file__).with_name("migrations")
    return apply(database_url, "analyzer", folder, migrations_of(ANALYSES))


class Store:
    """One connection, opened when needed and anew after a loss. Raises DatabaseAway."""

    def __init__(self, database_url: str, bounds: Bounds | None = None) -> None:
        self._database = Database(database_url)
        self._bounds = bounds or Bounds()
        self._statements = read_statements(Path(__file__).with_name("queries.sql"))

    def read(self, evaluation: str, measured: Sequence[MeasuredRun]) -> Frames:
        """Return the rows of the attempts that count, in the order given. Raises NoRuns."""
        caveats: list[str] = []
        with self._transaction() as session:
            found = self._ask(session, "attempts", {"evaluation": evaluation})
            if not found:
                raise NoRuns(evaluation)
            starts = {row["run_key"]: row.pop("ts") for row in found}
            known = {row["run_key"]: RunRow(**row) for row in found}
            rows = [_counted(evaluation, each, known) for each in measured]
            stored = [self._stored(session, row, starts.get(row.run_key)) for row in rows]
            runs = []
            for row, there, bounds in zip(rows, stored, self._bounds.shared(stored), strict=True):
                run = self._run(session, row, starts.get(row.run_key), bounds)
                run, left_out = _bounded(run, there, bounds)
                runs.append(run)
                caveats += left_out
        return Frames(
            evaluation=evaluation,
            measured=tuple(runs),
            attempts=tuple(known.values()),
            caveats=tuple(caveats),
        )

    def write(
        self,
        evaluation: str,
        tables: Sequence[Table],
        digest: str,
        trees: Mapping[int, pl.DataFrame],
    ) -> None:
        """Replace an evaluation's tables, and the trees of its attempts, in one transaction."""
        with self._transaction() as session:
            self._do(session, "lock_evaluation", {"evaluation": evaluation})
            self._do(session, "forget_tables", {"evaluation": evaluation})
            for place, table in enumerate(tables):
                values = {"evaluation": evaluation, "place": place, "digest": digest}
                self._do(session, "keep_table", values | _described(table))
            rows = (
                (evaluation, table.name, ordinal, Jsonb(cells))
                for table in tables
                for ordinal, cells in enumerate(_cells(table))
            )
            self._copy(session, "copy_rows", rows)
            self._do(session, "forget_trees", {"run_keys": list(trees)})
            for key, tree in trees.items():
                self._copy(session, "copy_tree", ((key, *row) for row in tree.iter_rows()))

    def tables(self, wanted: ShowTables) -> Tables:
        """Return an evaluation's tables in the order of a report, at most `MOST_ROWS` of each.

        Batches that came after a run's completeness was decided are a caveat of each.
        """
        values = {
            "evaluation": wanted.evaluation,
            "names": list(wanted.tables),
            "offset": wanted.offset,
            "limit": min(wanted.limit or MOST_ROWS, MOST_ROWS),
        }

        def read(session: psycopg.Connection[Any]) -> Tables:
            late = [_late(**row) for row in self._ask(session, "late_batches", values)]
            found = self._ask(session, "tables", values)
            total_rows = {row["name"]: row.pop("total_rows") for row in found}
            tables = tuple(self._table(session, values, row, late) for row in found)
            return Tables(evaluation=wanted.evaluation, tables=tables, total_rows=total_rows)

        with _ours():
            return self._database.read(read)

    def predictions(self, wanted: ShowPredictions, most: int) -> Predictions:
        """Return answers in the order of run, query and sample, `most` or fewer. Raises NoSuchRun.

        Of a run's attempts the last that was completed is read, else the last.
        """
        values = {
            "evaluation": wanted.evaluation,
            "run": wanted.run,
            "offset": wanted.offset,
            "limit": min(wanted.limit or most, most),
        }

        def read(session: psycopg.Connection[Any]) -> Predictions:
            counts = self._ask(session, "count_predictions", values)
            if not counts:
                raise NoSuchRun(wanted.evaluation, wanted.run)
            rows = self._ask(session, "predictions", values)
            failed = self._ask(session, "failed_queries", values)
            return Predictions(
                evaluation=wanted.evaluation,
                predictions=tuple(_told(row) for row in rows),
                total=sum(row["outputs"] for row in counts),
                failed=tuple(FailedQuery(**row) for row in failed),
            )

        with _ours():
            return self._database.read(read)

    def side(self, evaluation: str, run: str, most: int) -> Side:
        """Return one run's first answers by sample: of the first run that kept some, or the named.

        Raises NoSuchRun.
        """
        values = {"evaluation": evaluation, "run": run, "offset": 0, "limit": most}

        def read(session: psycopg.Connection[Any]) -> Side:
            counts = self._ask(session, "count_predictions", values)
            if not counts:
                raise NoSuchRun(evaluation, run)
            names = [row["run"] for row in counts if row["outputs"]] or [counts[0]["run"]]
            rows = self._ask(session, "predictions", {**values, "run": names[0]})
            by_sample: dict[int, Prediction] = {}
            for row in rows:
                found = prediction_of(row["run"], row)
                if found is not None:
                    by_sample.setdefault(found.sample, found)
            return Side(evaluation, names[0], by_sample)

        with _ours():
            return self._database.read(read)

    def close(self) -> None:
        """Give the connection back."""
        self._database.close()

    def _run(
        self,
        session: psycopg.Connection[Any],
        row: RunRow,
        ts: datetime | None,
        bounds: Bounds,
    ) -> Run:
        key = {"run_key": row.run_key, "ts": ts}
        queries = self._ask(session, "query_columns", key | {"most": bounds.queries})[0]
        spans = self._ask(session, "span_columns", key | {"most": bounds.spans})[0]
        names = {each["name"]: each["text"] for each in self._ask(session, "span_names", key)}
        outputs = self._ask(session, "outputs", key | {"most": bounds.outputs})
        failures = self._ask(session, "failures", key)
        natures = self._ask(session, "nature_columns", key | {"most": bounds.spans})[0]
        named_layers = self._rows(session, "named_layers", key | {"most": bounds.named_layers})
        layers: dict[str, str] = {}
        mine = pl.lit(row.run_key, pl.Int64).alias("run_key")
        named = with_names(frame_of(spans, SPAN_SCHEMA, row.run_key), names)
        return Run(
            row,
            queries=frame_of(queries, QUERY_SCHEMA, row.run_key),
            spans=named,
            layers=self._layers(session, named, key).with_columns(mine),
            outputs=_frame(outputs, OUTPUT_SCHEMA).with_columns(mine),
            failures=_frame(failures, FAILURE_SCHEMA).with_columns(mine),
            natures=natures_of(natures),
            named_layers={span: layers.setdefault(layer, layer) for span, layer in named_layers},
            series=self._series(session, key | {"most": bounds.samples}),
            counters=self._counters(session, named, key),
        )

    def _stored(
        self, session: psycopg.Connection[Any], row: RunRow, ts: datetime | None
    ) -> dict[str, int]:
        """Return how many rows of each kind of `Bounds` an attempt has."""
        key = {"run_key": row.run_key, "ts": ts}
        of_batches, beside = (self._ask(session, f"stored_{n}", key)[0] for n in ("rows", "beside"))
        return {**of_batches, **beside}

    def _series(self, session: psycopg.Connection[Any], key: Mapping[str, Any]) -> pl.DataFrame:
        """Return the sampled values of an attempt, a part at a time: they may be many."""
        found, schema = self._rows(session, "series", key), dict(SERIES_SCHEMA)
        parts = [pl.DataFrame(schema=schema)]
        while rows := found.fetchmany(_PART):
            parts.append(pl.DataFrame(rows, schema=schema, orient="row"))
        return pl.concat(parts)

    def _counters(
        self, session: psycopg.Connection[Any], spans: pl.DataFrame, key: Mapping[str, Any]
    ) -> pl.DataFrame:
        """Return what was counted of kernels; only a replay has some, and its spans tell of it."""
        is_replay = (spans["level"] == _HARDWARE_LEVEL).any()
        asked = {**key, "most": MOST_COUNTERS}
        found = self._rows(session, "kernel_counters", asked).fetchall() if is_replay else []
        return pl.DataFrame(found, schema=dict(COUNTER_SCHEMA), orient="row")

    def _layers(
        self, session: psycopg.Connection[Any], spans: pl.DataFrame, key: Mapping[str, Any]
    ) -> pl.DataFrame:
        """Return the nature of each layer, as the first span of it tells."""
        first = spans.filter(pl.col("level") == LAYER_LEVEL).unique(["layer", "name"], keep="first")
        natures = self._ask(session, "layer_natures", {**key, "spans": first["span"].to_list()})
        told = pl.DataFrame(natures, schema=_NATURES, orient="row")
        return first.join(told, on="span", how="left").select(*LAYER_SCHEMA)

    def _table(
        self,
        session: psycopg.Connection[Any],
        wanted: Mapping[str, Any],
        row: dict[str, Any],
        late: Sequence[str],
    ) -> Table:
        columns = tuple(Column(**each) for each in row.pop("columns"))
        values = {**wanted, "name": row["name"]}
        cells = [each["cells"] for each in self._ask(session, "rows", values)]
        rows = tuple(tuple(each.get(column.name) for column in columns) for each in cells)
        caveats = (*row.pop("caveats"), *late)
        return Table(columns=columns, rows=rows, caveats=caveats, **row)

    def _ask(
        self, session: psycopg.Connection[Any], name: str, values: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        cursor = session.cursor(row_factory=dict_row, binary=True)
        return cursor.execute(self._statements[name].encode(), values).fetchall()

    def _rows(
        self, session: psycopg.Connection[Any], name: str, values: Mapping[str, Any]
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        cursor = session.cursor(row_factory=tuple_row, binary=True)
        return cursor.execute(self._statements[name].encode(), values)

    def _do(self, session: psycopg.Connection[Any], name: str, values: Mapping[str, Any]) -> None:
        session.execute(self._statements[name].encode(), values)

    def _copy(
        self, session: psycopg.Connection[Any], name: str, rows: Iterator[tuple[Any, ...]]
    ) -> None:
        with session.cursor().copy(self._statements[name].encode()) as copy:
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[Any]]:
        with _ours(), self._database.transaction() as session:
            yield session


@contextmanager
def _ours() -> Iterator[None]:
    """Have foreign errors become ours."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InternalError, errors.UndefinedTable) as error:
        raise DatabaseAway(str(error)) from error


def _counted(evaluation: str, run: MeasuredRun, known: Mapping[int, RunRow]) -> RunRow:
    """Return an attempt that counts with its end; one that no agent ended has little to say."""
    key = run_key(evaluation, run.run, run.attempt)
    if key in known:
        return replace(known[key], end=run.end)
    return RunRow(
        run_key=key,
        run=run.run,
        attempt=run.attempt,
        end=run.end,
        agent=run.agent,
        outcome=run.end,
        message=run.cause,
    )


def _bounded(run: Run, stored: Mapping[str, int], bounds: Bounds) -> tuple[Run, list[str]]:
    """Return a run without queries of which only some spans were read, and what is left out."""
    said = [
        f"{run.row.run}: the first {most} of {stored[kind]} {name} were read"
        for kind, name in _KINDS.items()
        if stored[kind] > (most := getattr(bounds, kind))
    ]
    if stored["spans"] <= bounds.spans:
        return run, said
    spans = whole_queries(run.spans)
    if spans.height < run.spans.height:
        said.append(
            f"{run.row.run}: of those, the {spans.height} of whole queries count "
            f"({many(spans.filter(pl.col('level') <= ROOT_LEVEL).height, 'query')})"
        )
    return replace(run, spans=spans), said


def _frame(rows: list[dict[str, Any]], schema: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    wanted = {name: kind for name, kind in schema.items() if name != "run_key"}
    return pl.DataFrame(rows, schema=wanted, orient="row")


def _told(row: Mapping[str, Any]) -> schemas.analysis.Prediction:
    """Return a row as it is answered; one that is no answer has no features."""
    found = prediction_of(row["run"], row) or Prediction(
        row["run"], row["query"], row["sample"], []
    )
    return schemas.analysis.Prediction(
        run=found.run,
        query=found.query,
        sample=found.sample,
        name=found.name,
        features=tuple(found.features),
        truth=dict(found.truth),
    )


def _late(run: str, attempt: int, batches: int) -> str:
    return (
        f"{run}, attempt {attempt}: {many(batches, 'batch')} came after its rows were counted;"
        " this table may lack theirs"
    )


def _described(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "columns": Jsonb([column.model_dump() for column in table.columns]),
        "verdict": table.verdict,
        "caveats": Jsonb(list(table.caveats)),
        "id": table.id,
        "chart": None if table.chart is None else Jsonb(table.chart),
    }


def _cells(table: Table) -> Iterator[dict[str, Any]]:
    names = [column.name for column in table.columns]
    return (dict(zip(names, row, strict=True)) for row in table.rows)
