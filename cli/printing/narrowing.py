"""Tables narrowed to what was asked: a run's rows, an order, a few rows, some columns."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cli.failures import Misused
from schemas.analysis import Table

_RUN = "run"


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What of tables is printed; an empty field leaves them as they are.

    `sort` is a column, `-COLUMN` for descending order; `limit` counts rows, 0 is all.
    """

    run: str = ""
    sort: str = ""
    limit: int = 0
    columns: tuple[str, ...] = ()

    def of(self, tables: Sequence[Table], runs: Collection[str] = ()) -> list[Table]:
        """Return the tables narrowed; a column that a table lacks does not narrow it.

        Raises Misused for a column that no table has, a run that is neither in a table nor one of
        the evaluation's `runs`, and a negative limit.
        """
        if self.limit < 0:
            raise Misused(f"--limit {self.limit}: expected a number of rows, or 0 for all")
        names = {column.name for table in tables for column in table.columns}
        sort = (self.sort.removeprefix("-"),) if self.sort else ()
        for option, column in [
            *((("--run", _RUN),) if self.run else ()),
            *(("--sort", name) for name in sort),
            *(("--columns", name) for name in self.columns),
        ]:
            if tables and column not in names:
                raise Misused(
                    f"{option}: no column {column}; known columns: {', '.join(sorted(names))}"
                )
        if self.run and tables:
            self._check_run(tables, runs)
        return [self._narrowed(table) for table in tables]

    def _check_run(self, tables: Sequence[Table], runs: Collection[str]) -> None:
        """Raise Misused if the run is none of `runs`, and no row of any table is of it."""
        known = set(runs)
        for table in tables:
            names = [column.name for column in table.columns]
            if _RUN in names:
                known |= {str(row[names.index(_RUN)]) for row in table.rows}
        if known and self.run not in known:
            raise Misused(f"--run: no run {self.run}; its runs: {', '.join(sorted(known))}")

    def _narrowed(self, table: Table) -> Table:
        names = [column.name for column in table.columns]
        rows = list(table.rows)
        if self.run and _RUN in names:
            rows = [row for row in rows if row[names.index(_RUN)] == self.run]
        if (column := self.sort.removeprefix("-")) in names:
            place = names.index(column)
            present = [row for row in rows if not _is_absent(row[place])]
            present.sort(key=lambda row: row[place], reverse=self.sort.startswith("-"))
            rows = [*present, *(row for row in rows if _is_absent(row[place]))]
        places = [names.index(name) for name in self.columns if name in names]
        places = places or list(range(len(names)))
        return table.model_copy(
            update={
                "columns": tuple(table.columns[place] for place in places),
                "rows": tuple(
                    tuple(row[place] for place in places) for row in rows[: self.limit or None]
                ),
            }
        )


def _is_absent(value: object) -> bool:
    """Tell whether a cell has no value: None, or NaN, which is neither more nor less than any."""
    return value is None or value != value
