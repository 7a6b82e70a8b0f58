"""Batches as rows: PostgreSQL's binary COPY format, made with numpy. Pure.

A row is a count of fields (int16), then each field's length (int32, -1 for null) and value, all
big-endian. Rows with the same null columns have the same length, so they form one structured array.
The one variable field of a table (JSON or text) is its last one and follows its row.
Source: https://www.postgresql.org/docs/current/sql-copy.html (Binary Format).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from mlscope.tracing.batches import (
    LINKED_COLUMNS,
    OUTPUT_COLUMNS,
    QUERY_COLUMNS,
    TRACE_COLUMNS,
    columns_of,
    is_linked,
)
from schemas.batch import Batch, OutputsPredicted, QueriesAnswered, TraceCaptured
from services.collector.errors import MisshapenBatch

COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""The start of a binary COPY: signature, no flags, no extension."""

COPY_TRAILER = b"\xff\xff"
"""The end of a binary COPY: a field count of -1."""

MOST_TEXT_BYTES = 16 << 20
"""The largest text of a row: what a worker hands over at most. The server needs 30 times its size
to read one as JSON."""

_EPOCH_2000_US = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_STORED = {"<i8": ">i8", "<i4": ">i4", "<i2": ">i2", "<i1": ">i2"}
"""Column types in a row by those in a batch; PostgreSQL's smallest integer has two bytes."""

_PLACE = (("ts", ">i8"), ("run_key", ">i8"), ("batch", ">i4"))

Array = npt.NDArray[Any]
Columns = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Layout:
    """The mapping of a kind of batch to rows of a table.

    `table` names the COPY: a table, or `linked_span` for spans with the columns that link them.
    `columns` are the columns of the batch, by name and dtype; -1 in a `nullable` one means null.
    """

    kind: int
    table: str
    columns: tuple[tuple[str, str], ...]
    nullable: tuple[str, ...]
    last: str
    is_json: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The table's columns in the order of the COPY."""
        return (*(name for name, _ in (*_PLACE, *self.columns)), self.last)


_SPAN = Layout(0, "span", tuple(TRACE_COLUMNS.items()), ("parent",), "attributes", True)
_LINKED_SPAN = Layout(
    0, "linked_span", tuple(LINKED_COLUMNS.items()), ("parent", "correlation"), "attributes", True
)
_QUERY = Layout(
    1, "query", tuple(QUERY_COLUMNS.items()), ("due_ns", "service_ns", "failed"), "error", False
)
_OUTPUT = Layout(2, "output", tuple(OUTPUT_COLUMNS.items()), (), "features", True)

LAYOUTS: Mapping[type[Batch], Layout] = MappingProxyType(
    {TraceCaptured: _SPAN, QueriesAnswered: _QUERY, OutputsPredicted: _OUTPUT}
)
"""The layout of each kind of batch without optional columns."""


def layout_of(batch: Batch) -> Layout:
    """Return the layout of a batch, by its kind and its columns."""
    return _LINKED_SPAN if is_linked(batch) else LAYOUTS[type(batch)]


@dataclass(frozen=True, slots=True)
class BatchKey:
    """The columns that are equal in all rows of a batch; `ts_us` counts from the year 2000."""

    ts_us: int
    run_key: int
    batch: int


def storable(text: str) -> str:
    """Return a text that PostgreSQL can store: without NUL, with lone surrogates replaced."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def batch_key_of(batch: Batch, run_key: int, requested_ns: int) -> BatchKey:
    """Return the key columns of `batch`, of the attempt `run_key`.

    `requested_ns` is the time of its evaluation's request, in epoch ns.
    """
    return BatchKey(requested_ns // 1000 - _EPOCH_2000_US, run_key, batch.sequence)


def rows_of(batch: Batch, place: BatchKey) -> bytes:
    """Return a batch's rows as the body of a binary COPY into its kind's table.

    Raises MisshapenBatch.
    """
    layout = layout_of(batch)
    try:
        columns = columns_of(batch)
    except ValueError as error:
        raise MisshapenBatch(str(error)) from error
    texts, indexes = _last_field_of(batch)
    if not texts:
        return b"".join(_bare_rows(layout, group, place) for group in _alike(columns, layout))
    bare = np.delete(np.arange(batch.count), indexes)
    blocks = [
        _bare_rows(layout, group, place) for group in _alike(_select_rows(columns, bare), layout)
    ]
    chosen = {**_select_rows(columns, indexes), layout.last: np.arange(len(texts))}
    blocks += [_rows_with_texts(layout, group, texts, place) for group in _alike(chosen, layout)]
    return b"".join(blocks)


def _last_field_of(batch: Batch) -> tuple[Sequence[bytes], Array]:
    """Return the texts of the last field and the rows that have one. Raises MisshapenBatch."""
    texts: Sequence[bytes]
    rows: Sequence[int]
    if isinstance(batch, QueriesAnswered):
        texts = [storable(text).encode() for text in batch.error_texts]
        rows = batch.error_rows
    elif isinstance(batch, TraceCaptured):
        texts, rows = batch.attribute_texts, batch.attribute_rows
    else:
        texts, rows = batch.texts, range(batch.count)
    _check_texts(texts, rows, batch.count)
    return texts, np.array(rows, dtype=np.int64)


def _check_texts(texts: Sequence[bytes], rows: Sequence[int], count: int) -> None:
    """Check that each text belongs to one of `count` rows. Raises MisshapenBatch."""
    if (most := max(map(len, texts), default=0)) > MOST_TEXT_BYTES:
        raise MisshapenBatch(f"a text of {most} bytes, allowed: up to {MOST_TEXT_BYTES}")
    if len(rows) != len(texts):
        raise MisshapenBatch(f"{len(texts)} texts for {len(rows)} rows")
    if rows and (min(rows) < 0 or max(rows) >= count or len(set(rows)) < len(rows)):
        raise MisshapenBatch(f"row numbers of texts must be distinct and below {count}")


def _select_rows(columns: Columns, chosen: Array) -> Columns:
    return {name: values.take(chosen) for name, values in columns.items()}


def _alike(columns: Columns, layout: Layout) -> Iterator[Columns]:
    """Group rows by their null columns; a column that is null in a group is left out."""
    groups = [columns]
    for name in layout.nullable:
        parted: list[Columns] = []
        for group in groups:
            null = group[name] == -1
            without = {key: values for key, values in group.items() if key != name}
            if null.all():
                parted.append(without)
            elif null.any():
                parted.append(_select_rows(group, np.flatnonzero(~null)))
                parted.append(_select_rows(without, np.flatnonzero(null)))
            else:
                parted.append(group)
        groups = parted
    return (group for group in groups if len(group["query"]))


def _bare_rows(layout: Layout, columns: Columns, place: BatchKey) -> bytes:
    return _filled(layout, columns, place, has_text=False).tobytes()


def _rows_with_texts(
    layout: Layout, columns: Columns, texts: Sequence[bytes], place: BatchKey
) -> bytes:
    """Return rows, each followed by its text; the column `layout.last` holds the text's index."""
    ours = [texts[index] for index in columns[layout.last].tolist()]
    fixed = {name: values for name, values in columns.items() if name != layout.last}
    rows = _filled(layout, fixed, place, has_text=True)
    lengths = np.fromiter(map(len, ours), np.int64, len(ours))
    rows[f"{layout.last}_length"] = lengths + layout.is_json
    parts: list[bytes] = [b""] * (2 * len(ours))
    parts[::2] = rows.view(f"V{rows.itemsize}").tolist()
    parts[1::2] = ours
    return b"".join(parts)


def _filled(
    layout: Layout, columns: Columns, place: BatchKey, *, has_text: bool
) -> npt.NDArray[np.void]:
    """Return rows of equal length; missing columns are null, the last field is null or follows."""
    template = _template(layout, frozenset(columns), has_text)
    # Repeating bytes is 20 times faster than assigning the template to every row.
    raw = bytearray(template.tobytes() * len(columns["query"]))
    rows: npt.NDArray[np.void] = np.frombuffer(raw, dtype=template.dtype)
    rows["ts"], rows["run_key"], rows["batch"] = place.ts_us, place.run_key, place.batch
    for name, values in columns.items():
        rows[name] = values
    return rows


@lru_cache(maxsize=32)
def _template(layout: Layout, present: frozenset[str], has_text: bool) -> npt.NDArray[np.void]:
    """Return one row with its count of fields and their lengths; its values are 0."""
    stored = dict(_PLACE)
    stored |= {name: _STORED[dtype] for name, dtype in layout.columns if name in present}
    fields = [("fields", ">i2")]
    for name in layout.names:
        fields.append((f"{name}_length", ">i4"))
        if name in stored:
            fields.append((name, stored[name]))
    if has_text and layout.is_json:
        fields.append(("jsonb_version", "u1"))
    row = np.zeros((), dtype=np.dtype(fields))
    if has_text and layout.is_json:
        row["jsonb_version"] = 1
    row["fields"] = len(layout.names)
    for name in layout.names:
        row[f"{name}_length"] = np.dtype(stored[name]).itemsize if name in stored else -1
    return row
