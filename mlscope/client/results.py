"""An evaluation's tables as a user reads them: rows as maps, or a polars frame."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlscope.client.brief import text_of
from mlscope.client.errors import NoSuchTable
from mlscope.client.notebook import evaluations_html, table_html, verdicts_html
from schemas.analysis import Column, Table, Tables
from schemas.status import EvaluationStatus

if TYPE_CHECKING:
    import polars as pl


class ListedEvaluations(tuple[EvaluationStatus, ...]):
    """Evaluations, newest first; a notebook shows them with their figures."""

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a load a row, linked to the evaluation's page."""
        return evaluations_html(self)


@dataclass(frozen=True, slots=True, repr=False)
class ResultTable:
    """One analysis table; `columns` carry type, unit and a sentence each.

    As a string it is a text to read: the columns that say most, the verdict, the caveats.
    """

    table: Table

    def __str__(self) -> str:
        """Return the table in brief, aligned."""
        return text_of(self.table)

    def __repr__(self) -> str:
        """Return the name and the size."""
        return f"<ResultTable {self.name}: {len(self.table.rows)} rows>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the columns that say most, the verdict, the caveats."""
        return table_html(self.table)

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table.name

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, in the order of each row."""
        return self.table.columns

    @property
    def verdict(self) -> str:
        """What the table says, in one sentence."""
        return self.table.verdict

    def rows(self) -> list[dict[str, Any]]:
        """Return every row as column name to value."""
        return self.table.records()

    def polars(self) -> "pl.DataFrame":
        """Return the rows as a polars frame. Needs polars (`pip install mlscope[services]`)."""
        import polars as pl

        kinds: dict[str, Any] = {
            "int": pl.Int64,
            "float": pl.Float64,
            "text": pl.String,
            "bool": pl.Boolean,
        }
        schema = {column.name: kinds[column.type] for column in self.table.columns}
        return pl.DataFrame(self.table.rows, schema=schema, orient="row")


class ResultTables(Mapping[str, ResultTable]):
    """Tables by name or number (`A8`), in the analyzer's order. Missing ones raise NoSuchTable."""

    def __init__(self, answer: Tables) -> None:
        """Take the answer to `tables`."""
        self._tables = {table.name: ResultTable(table) for table in answer.tables}
        self._numbered = {table.id: table.name for table in answer.tables if table.id}

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the verdict of each table."""
        return verdicts_html(result.table for result in self._tables.values())

    def __getitem__(self, name: str) -> ResultTable:
        """Return a table. Raises NoSuchTable."""
        table = self._tables.get(self._numbered.get(name, name))
        if table is None:
            raise NoSuchTable(name, tuple(self._tables))
        return table

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a table of this name or number."""
        return name in self._tables or name in self._numbered

    def __iter__(self) -> Iterator[str]:
        """Yield the tables' names."""
        return iter(self._tables)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._tables)
