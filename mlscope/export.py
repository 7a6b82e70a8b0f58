"""Tables as Parquet files, with units and descriptions as metadata, and as Arrow IPC files."""

import io
import json
from types import MappingProxyType

import polars as pl

from schemas.analysis import Table

_TYPES = MappingProxyType(
    {"int": pl.Int64, "float": pl.Float64, "text": pl.String, "bool": pl.Boolean}
)


def frame_of(table: Table) -> pl.DataFrame:
    """Return the rows of a table as a typed frame."""
    schema = {column.name: _TYPES[column.type] for column in table.columns}
    return pl.DataFrame(table.rows, schema=schema, orient="row")


def parquet_of(table: Table) -> bytes:
    """Return a table as a Parquet file; its metadata hold title, verdict, caveats and columns."""
    out = io.BytesIO()
    metadata = {
        "title": table.title,
        "verdict": table.verdict,
        "caveats": json.dumps(table.caveats),
        "columns": json.dumps([column.model_dump() for column in table.columns]),
    }
    frame_of(table).write_parquet(out, metadata=metadata)
    return out.getvalue()


def arrow_of(table: Table) -> bytes:
    """Return a table as an Arrow IPC file (Feather 2)."""
    out = io.BytesIO()
    frame_of(table).write_ipc(out)
    return out.getvalue()
