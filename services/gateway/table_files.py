"""Tables as files to download. Pure."""

import csv
import io
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mlscope.quantities import heads_of, shown, unit_of
from mlscope.texts.printable import csv_cell
from schemas.analysis import Table

FILES: Mapping[str, str] = MappingProxyType(
    {
        "csv": "text/csv",
        "parquet": "application/vnd.apache.parquet",
        "arrow": "application/vnd.apache.arrow.file",
        "md": "text/markdown",
    }
)
"""The media type of each file format of a table, by its suffix."""


def file_content(table: Table, suffix: str) -> str | bytes:
    """Return a table as the content of a file; `suffix` is one of FILES."""
    if suffix == "csv":
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(column.name for column in table.columns)
        writer.writerows(map(csv_cell, row) for row in table.rows)
        return text.getvalue()
    if suffix == "md":
        return _markdown(table)
    # Polars takes long to load, and few clients ask for such files.
    from mlscope.export import arrow_of, parquet_of

    return parquet_of(table) if suffix == "parquet" else arrow_of(table)


def _markdown(table: Table) -> str:
    """Return a table for people, with its verdict and caveats; numbers have their units."""
    heads = heads_of([(column.name, column.unit) for column in table.columns])
    lines = [f"# {table.title or table.name}", "", table.verdict, ""]
    lines += [f"- {caveat}" for caveat in table.caveats] + [""] * bool(table.caveats)
    lines += [_line(heads), _line(["---"] * len(heads))]
    for row in table.rows:
        cells = zip(row, table.columns, strict=True)
        lines.append(_line([shown(value, unit_of(column)) for value, column in cells]))
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
