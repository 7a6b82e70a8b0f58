"""Tables as files to download. Pure."""

import csv
import io
from collections.abc import Mapping
from types import MappingProxyType

from schemas.analysis import Table

FILES: Mapping[str, str] = MappingProxyType(
    {
        "csv": "text/csv",
        "parquet": "application/vnd.apache.parquet",
        "arrow": "application/vnd.apache.arrow.file",
    }
)
"""The media type of each file format of a table, by its suffix."""


def file_content(table: Table, suffix: str) -> str | bytes:
    """Return a table as the content of a file; `suffix` is one of FILES."""
    if suffix == "csv":
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(column.name for column in table.columns)
        writer.writerows(table.rows)
        return text.getvalue()
    # Polars takes long to load, and few clients ask for such files.
    from mlscope.export import arrow_of, parquet_of

    return parquet_of(table) if suffix == "parquet" else arrow_of(table)
