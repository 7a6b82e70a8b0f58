"""The analyzer's database: reads rows, writes and reads tables. Blocking: call it in a thread.

Reading is bounded; the frames' caveats name what was left out.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from psycopg.types.json import Jsonb

import schemas.analysis
from mlscope.counts import many
from mlscope.database.migrations import Profile, apply
from mlscope.manifests.naming import name_in_figures
from schemas.analysis import Column, FailedQuery, Predictions, Table, Tables
from schemas.evaluation import MeasuredRun
from schemas.exploration import Explore
from schemas.request import ShowPredictions, ShowTables
from schemas.values.identity import run_key
from services.analyzer.analysis import Analyzed
from services.analyzer.divergence import Side
from services.analyzer.errors import CountMissing, NoRuns, NoSuchRun, RowsMissing
from services.analyzer.frames.bounds import Bounds
from services.analyzer.frames.evaluation import Frames, RunRow
from services.analyzer.frames.predictions import Prediction, prediction_of
from services.analyzer.storage.runs import RunReader
from services.analyzer.storage.session import Session, Sessions
from services.analyzer.summaries import Cells
from services.analyzer.tables import ANALYSES
from services.analyzer.views import migrations_of

MOST_ROWS = 10_000
"""The most rows of a table that are read for one answer; further ones are requested by offset."""

_CONSTRAINTS = ("task", "model", "framework", "agent", "device", "scenario")
"""Constraints of `explore`, columns of the table `headline`."""
_SOURCES = {analysis.name: analysis.source for analysis in ANALYSES}


def migrate(database_url: str) -> Profile:
    """Create or update the analyzer's tables and views; return the database's profile."""
    folder = Path(__file__).with_name("migrations")
    return apply(database_url, "analyzer", folder, migrations_of(ANALYSES))


def _check_stored(run: MeasuredRun, row: RunRow, counts: Mapping[str, int]) -> None:
    """Check that what the log says of a run is stored. Raises RowsMissing."""
    # Of an incomplete run nobody knows how many spans there are to wait for.
    spans = run.spans if run.end != "incomplete" else 0
    for kind, stored_rows in (("queries", run.queries), ("spans", spans)):
        if counts[kind] < stored_rows:
            raise RowsMissing(run.run, kind, counts[kind], stored_rows)
    # The collector publishes its count before it notes it. Only a run that was cut off is sure to
    # be counted: of others the collector may have been silent.
    if run.end == "cancelled" and row.state == "ended":
        raise CountMissing(run.run)


def _visible_values(visible: Collection[str] | None) -> dict[str, list[str] | None]:
    """Return the parameter of statements that leave out evaluations which are not `visible`."""
    return {"visible": None if visible is None else list(visible)}


class Store:
    """Reads and writes over one connection. Raises DatabaseAway."""

    def __init__(self, database_url: str, bounds: Bounds | None = None) -> None:
        """Connect to `database_url` when needed; `bounds` limit the rows read of an evaluation."""
        self._bounds = bounds or Bounds()
        self._sessions = Sessions(database_url, Path(__file__).with_name("queries.sql"))

    def read(
        self, evaluation: str, measured: Sequence[MeasuredRun], *, awaits_counts: bool = True
    ) -> Frames:
        """Return the rows of an `evaluation` that count, in the order of its `measured` runs.

        With `awaits_counts`, CountMissing says that the collector has yet to note its count of an
        attempt whose state a table shows. Raises NoRuns, RowsMissing.
        """
        with self._sessions.transaction() as session:
            attempts = session.maps("attempts", {"evaluation": evaluation})
            if not attempts:
                raise NoRuns(evaluation)
            starts = {row["run_key"]: row.pop("ts") for row in attempts}
            recorded = {row["run_key"]: RunRow(**row) for row in attempts}
            for row in recorded.values():
                if awaits_counts and row.state == "ended" and row.outcome != "completed":
                    raise CountMissing(row.run)
            readers = []
            for run in measured:
                key = run_key(evaluation, run.run, run.attempt)
                # The row of an attempt that no agent ended has few values.
                row = recorded.get(key) or RunRow(
                    run_key=key,
                    run=run.run,
                    attempt=run.attempt,
                    agent=run.agent,
                    outcome=run.end,
                    message=run.cause,
                )
                readers.append(RunReader(session, replace(row, end=run.end), starts.get(key)))
            stored = [reader.stored() for reader in readers]
            for run, reader, counts in zip(measured, readers, stored, strict=True):
                _check_stored(run, reader.row, counts)
            runs, caveats = [], []
            for reader, counts, bounds in zip(
                readers, stored, self._bounds.shared(stored), strict=True
            ):
                bounded_run, left_out = reader.read(counts, bounds)
                runs.append(bounded_run)
                caveats += left_out
        return Frames(
            evaluation=evaluation,
            measured=tuple(runs),
            attempts=tuple(recorded.values()),
            caveats=tuple(caveats),
        )

    def server_start(self) -> str:
        """Return when the database's server was started, by its own clock: each start differs."""
        return str(
            self._sessions.read(lambda session: session.maps("server_start", {}))[0]["started"]
        )

    def without_tables(self, evaluations: Sequence[str]) -> list[str]:
        """Return those of `evaluations` that have no tables."""
        values = {"evaluations": list(evaluations)}
        rows = self._sessions.read(lambda session: session.maps("without_tables", values))
        return [row["evaluation"] for row in rows]

    def with_runs(self, evaluations: Sequence[str]) -> list[str]:
        """Return those of `evaluations` of which any run is in the database."""
        values = {"evaluations": list(evaluations)}
        rows = self._sessions.read(lambda session: session.maps("with_runs", values))
        return [row["evaluation"] for row in rows]

    def beginnings(self, evaluations: Sequence[str]) -> dict[str, float]:
        """Return when each of `evaluations` began (epoch s); those of which it is unknown lack."""
        values = {"evaluations": list(evaluations)}
        rows = self._sessions.read(lambda session: session.maps("beginnings", values))
        return {row["evaluation"]: row["began_s"] for row in rows}

    def repeats(
        self, evaluations: Sequence[str], most: int, visible: Collection[str] | None
    ) -> list[str]:
        """Return the newest other evaluations of a load of `evaluations`, at most so many.

        Only those `visible` count; None: all.
        """
        values = {"evaluations": list(evaluations), "most": most, **_visible_values(visible)}
        rows = self._sessions.read(lambda session: session.maps_for("repeats", values))
        return [row["evaluation"] for row in rows]

    def write(self, evaluation: str, analyzed: Analyzed) -> None:
        """Replace an evaluation's tables, headlines, and trees of attempts in one transaction."""
        tables = analyzed.tables
        with self._sessions.transaction() as session:
            session.execute("lock_evaluation", {"evaluation": evaluation})
            session.execute("delete_tables", {"evaluation": evaluation})
            for place, table in enumerate(tables):
                values = {
                    "evaluation": evaluation,
                    "place": place,
                    "digest": analyzed.digest,
                    "name": table.name,
                    "title": table.title,
                    "columns": Jsonb([column.model_dump() for column in table.columns]),
                    "verdict": table.verdict,
                    "caveats": Jsonb(list(table.caveats)),
                    "id": table.id,
                    "chart": None if table.chart is None else Jsonb(table.chart),
                }
                session.execute("insert_table", values)
            rows = (
                (evaluation, table.name, ordinal, Jsonb(record))
                for table in tables
                for ordinal, record in enumerate(table.records())
            )
            session.copy("copy_rows", rows)
            session.execute("delete_headlines", {"evaluation": evaluation})
            for summary in analyzed.summaries:
                session.execute("insert_headline", {**summary, "evaluation": evaluation})
            session.execute("delete_trees", {"run_keys": list(analyzed.trees)})
            for key, tree in analyzed.trees.items():
                session.copy("copy_tree", ((key, *row) for row in tree.iter_rows()))

    def tables(self, request: ShowTables) -> Tables:
        """Return an evaluation's tables in the order of a report, at most `MOST_ROWS` rows of each.

        A caveat of each names batches that came after a run's completeness was decided.
        """
        values = {
            "evaluation": request.evaluation,
            "names": list(request.tables),
            "offset": request.offset,
            "limit": min(request.limit or MOST_ROWS, MOST_ROWS),
        }

        def read(session: Session) -> Tables:
            late = [
                f"{row['run']}, attempt {row['attempt']}: {many(row['batches'], 'batch')} came "
                "after its rows were counted; this table may lack their rows"
                for row in session.maps("late_batches", values)
            ]
            tables, total_rows = [], {}
            for row in session.maps("tables", values):
                total_rows[row["name"]] = row.pop("total_rows")
                columns = tuple(Column(**column) for column in row.pop("columns"))
                stored = session.maps("rows", {**values, "name": row["name"]})
                rows = tuple(
                    tuple(entry["cells"].get(column.name) for column in columns) for entry in stored
                )
                caveats = (*row.pop("caveats"), *late)
                tables.append(
                    Table(
                        columns=columns,
                        rows=rows,
                        caveats=caveats,
                        source=_SOURCES.get(row["name"], ""),
                        **row,
                    )
                )
            return Tables(
                evaluation=request.evaluation, tables=tuple(tables), total_rows=total_rows
            )

        return self._sessions.read(read)

    def loads(
        self, request: Explore, *, is_history: bool, limit: int, visible: Collection[str] | None
    ) -> tuple[list[Cells], int]:
        """Return the `limit` newest headlines that a request allows, and how many there are.

        Only those of the evaluations `visible` count; None: of all. With `is_history` these are all
        measurements of each load, else the newest alone. Their model is its `name_in_figures`.
        """
        model, _, version = request.model.partition(":")
        values = {
            **request.model_dump(include=set(_CONSTRAINTS)),
            "model": model,
            "version": version,
            "most": limit,
            **_visible_values(visible),
        }
        name = "headlines" if is_history else "newest_headlines"
        rows = self._sessions.read(lambda session: session.maps_for(name, values))
        for row in rows:
            row["model"] = name_in_figures(f"{row['model']}:{row['model_version']}")
        return rows, int(rows[0]["total"]) if rows else 0

    def choices(self, visible: Collection[str] | None) -> dict[str, tuple[str, ...]]:
        """Return the values that each constraint of `explore` has in the evaluations `visible`.

        None: in all.
        """
        values = _visible_values(visible)
        (row,) = self._sessions.read(lambda session: session.maps_for("choices", values))
        return {name: tuple(filter(None, row[name] or ())) for name in _CONSTRAINTS}

    def predictions(self, request: ShowPredictions, max_answers: int) -> Predictions:
        """Return at most `max_answers` answers by run, query and sample. Raises NoSuchRun.

        The last completed attempt of a run is read, else its last attempt.
        """
        values = {
            "evaluation": request.evaluation,
            "run": request.run,
            "offset": request.offset,
            "limit": min(request.limit or max_answers, max_answers),
        }

        def read(session: Session) -> Predictions:
            counts = session.maps("count_predictions", values)
            if not counts:
                raise NoSuchRun(request.evaluation, request.run)
            answers = []
            for row in session.maps("predictions", values):
                # A row that is no answer has no features.
                answer = prediction_of(row["run"], row) or Prediction(
                    row["run"], row["query"], row["sample"], []
                )
                answers.append(
                    schemas.analysis.Prediction(
                        run=answer.run,
                        query=answer.query,
                        sample=answer.sample,
                        name=answer.name,
                        features=tuple(answer.features),
                        truth=dict(answer.truth),
                    )
                )
            return Predictions(
                evaluation=request.evaluation,
                predictions=tuple(answers),
                total=sum(row["outputs"] for row in counts),
                failed=tuple(FailedQuery(**row) for row in session.maps("failed_queries", values)),
            )

        return self._sessions.read(read)

    def side(self, evaluation: str, run: str, max_answers: int) -> Side:
        """Return the first `max_answers` of a run, by sample. Raises NoSuchRun.

        Without the name of a `run` it is the evaluation's first run with stored answers.
        """
        values = {"evaluation": evaluation, "run": run, "offset": 0, "limit": max_answers}

        def read(session: Session) -> Side:
            counts = session.maps("count_predictions", values)
            if not counts:
                raise NoSuchRun(evaluation, run)
            names = [row["run"] for row in counts if row["outputs"]] or [counts[0]["run"]]
            by_sample: dict[int, Prediction] = {}
            for row in session.maps("predictions", {**values, "run": names[0]}):
                prediction = prediction_of(row["run"], row)
                if prediction is not None:
                    by_sample.setdefault(prediction.sample, prediction)
            return Side(evaluation, names[0], by_sample)

        return self._sessions.read(read)

    def close(self) -> None:
        """Close the connection."""
        self._sessions.close()
