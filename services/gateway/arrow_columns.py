"""Arrow streams as lists of values, for clients and pages without an Arrow reader."""

from io import BytesIO
from typing import Any


def columns_of(stream: bytes) -> dict[str, list[Any]]:
    """Return the columns of an Arrow stream as lists."""
    # Polars takes long to load, and few clients ask for JSON.
    import polars as pl

    return pl.read_ipc_stream(BytesIO(stream)).to_dict(as_series=False)
