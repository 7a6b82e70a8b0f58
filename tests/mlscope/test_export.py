"""Tables as files: what was written is read back, types and metadata too."""

import io
import json

import polars as pl
import pytest

from mlscope.export import arrow_of, frame_of, parquet_of
from schemas.analysis import Column, Table


def _table(*rows: tuple[object, ...]) -> Table:
    columns = (
        Column(name="run", type="text"),
        Column(name="count", type="int", unit="1"),
        Column(name="p99", type="float", unit="ns", description="99th percentile."),
        Column(name="is_best", type="bool"),
    )
    return Table(name="t", title="T", columns=columns, rows=rows, verdict="Good.", caveats=("few",))


@pytest.mark.parametrize("rows", [(), (("r0", 3, None, True), ("r1", 4, 2.5, None))])
def test_files_hold_the_frame(rows: tuple[tuple[object, ...], ...]) -> None:
    table = _table(*rows)
    frame = frame_of(table)
    assert frame.schema == {
        "run": pl.String,
        "count": pl.Int64,
        "p99": pl.Float64,
        "is_best": pl.Boolean,
    }
    assert pl.read_parquet(io.BytesIO(parquet_of(table))).equals(frame)
    assert pl.read_ipc(io.BytesIO(arrow_of(table))).equals(frame)


def test_parquet_carries_units_and_caveats() -> None:
    metadata = pl.read_parquet_metadata(io.BytesIO(parquet_of(_table())))
    assert (metadata["title"], metadata["verdict"]) == ("T", "Good.")
    assert json.loads(metadata["caveats"]) == ["few"]
    assert json.loads(metadata["columns"])[2]["unit"] == "ns"
