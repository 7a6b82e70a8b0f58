"""Rows made by numpy are what PostgreSQL reads: the same values as psycopg's own rows."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlscope.database.statements import read_statements
from mlscope.tracing.batches import Attempt, linked_batch, query_batch, trace_batch
from schemas.batch import Batch
from services.collector import rows as module
from services.collector.errors import MisshapenBatch
from services.collector.rows import (
    COPY_HEADER,
    COPY_TRAILER,
    MOST_TEXT_BYTES,
    batch_key_of,
    layout_of,
    rows_of,
)
from services.collector.store import migrate
from tests.services.collector.builders import (
    REQUESTED_NS,
    a_linked_trace,
    a_trace,
    some_outputs,
    some_queries,
)
from tests.thoroughness import examples

_QUERIES_SQL = Path(module.__file__).with_name("queries.sql")
_INT64 = st.integers(-(2**63), 2**63 - 1)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT16 = st.integers(-(2**15), 2**15 - 1)
_INT8 = st.integers(-128, 127)
_ABSENT = st.just(-1)
_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
_JSON = st.dictionaries(_TEXT, st.none() | _INT32 | _TEXT, max_size=3)
_SPANS = st.lists(
    st.tuples(
        *(_INT64, _ABSENT | _INT64, _INT8, _INT32, _INT64, _INT64, _INT32, _INT32, _INT16),
        st.just({}) | _JSON,
    ),
    max_size=12,
)
_QUERIES = st.lists(
    st.tuples(
        *(_INT32, _INT16, _INT32, _ABSENT | _INT64, _INT64, _INT64, _INT64, _ABSENT | _INT64),
        _INT8,
        _TEXT,
    ),
    max_size=12,
)
_ATTEMPT = Attempt(evaluation="e1", run="r0", attempt=1, agent="a1")
_QUIET = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def session(database_url: str) -> Any:
    migrate(database_url)
    with psycopg.connect(database_url, autocommit=True) as session:
        yield session


def _stored(session: psycopg.Connection[Any], batch: Batch) -> list[tuple[Any, ...]]:
    """Return the rows of a batch after a COPY of what `rows_of` makes."""
    table = layout_of(batch).table
    text = read_statements(_QUERIES_SQL)[f"copy_{table}"]
    body = rows_of(batch, batch_key_of(batch, 77, REQUESTED_NS))
    table = table.removeprefix("linked_")
    session.execute(f"TRUNCATE {table}".encode())
    with session.cursor().copy(text.encode()) as copy:
        copy.write(COPY_HEADER + body + COPY_TRAILER)
    return sorted(session.execute(f"TABLE {table}".encode()).fetchall(), key=repr)


def _written(
    session: psycopg.Connection[Any], table: str, rows: list[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """Return the same rows through psycopg's own `write_row`."""
    session.execute(f"TRUNCATE {table}".encode())
    with session.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row(row)
    return sorted(session.execute(f"TABLE {table}".encode()).fetchall(), key=repr)


def _ts() -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=REQUESTED_NS // 1000)


def _null(value: int) -> int | None:
    return None if value == -1 else value


@_QUIET
@given(spans=_SPANS.filter(bool))
def test_spans_are_those_of_write_row(session: Any, spans: list[Any]) -> None:
    batch = trace_batch(_ATTEMPT, 5, _encoded(spans), {"n": 0})
    expected = [(*_expected(span), 0, None) for span in spans]
    assert _stored(session, batch) == _written(session, "span", expected)


@_QUIET
@given(parts=st.lists(st.tuples(_SPANS.filter(bool), _INT8, _ABSENT | _INT64), min_size=1))
def test_linked_spans_are_those_of_write_row(session: Any, parts: list[Any]) -> None:
    spans = [(span, kind, joined) for (span, *_), kind, joined in parts]
    rows = [(*_encoded([span])[0], kind, joined) for span, kind, joined in spans]
    batch = linked_batch(_ATTEMPT, 5, rows, {"n": 0})
    expected = [(*_expected(span), kind, _null(joined)) for span, kind, joined in spans]
    assert _stored(session, batch) == _written(session, "span", expected)


def _expected(span: Any) -> tuple[Any, ...]:
    text = json.dumps(span[9]) if span[9] else None
    return (_ts(), 77, 5, span[0], _null(span[1]), *span[2:9], text)


def _encoded(spans: list[Any]) -> list[Any]:
    return [(*span[:9], json.dumps(span[9]).encode() if span[9] else b"") for span in spans]


@_QUIET
@given(queries=_QUERIES.filter(bool))
def test_queries_are_those_of_write_row(session: Any, queries: list[Any]) -> None:
    batch = query_batch(_ATTEMPT, 6, queries)
    expected = [
        (_ts(), 77, 6, *q[:3], _null(q[3]), *q[4:7], _null(q[7]), q[8], q[9] or None, None)
        for q in queries
    ]
    assert _stored(session, batch) == _written(session, "query", expected)


def test_how_many_samples_of_a_query_failed_is_stored_and_null_of_others(session: Any) -> None:
    rows = [(n, 0, 8, -1, n, n, n + 9, 9, 0, "sample 1: torn" if n == 1 else "") for n in range(3)]
    stored = _stored(session, query_batch(_ATTEMPT, 6, rows, {1: 5}))
    assert sorted((row[3], row[13]) for row in stored) == [(0, None), (1, 5), (2, None)]


def test_outputs_keep_their_json(session: Any) -> None:
    stored = _stored(session, some_outputs(count=2))
    assert [row[3:5] for row in stored] == [(0, 0), (1, 1)]
    assert stored[0][5] == [{"label": "cat", "probability": 0.5}]


@pytest.mark.parametrize("batch", [a_trace(), a_linked_trace(), some_queries(), some_outputs()])
def test_copy_names_the_columns_of_the_layout(batch: Batch) -> None:
    layout = layout_of(batch)
    statement = read_statements(_QUERIES_SQL)[f"copy_{layout.table}"]
    columns = statement.partition("(")[2].partition(")")[0]
    assert tuple(name.strip() for name in columns.split(",")) == layout.names


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (a_trace(level=b"\x01"), "column level has 1 of 4 values"),
        (a_trace(span=b"\x01"), "buffer size must be a multiple"),
        (a_trace(attribute_rows=(9,)), "row numbers of texts must be distinct and below 4"),
        (a_trace(attribute_rows=()), "1 texts for 0 rows"),
        (some_queries(error_rows=(1, 1), error_texts=("a", "b")), "must be distinct"),
        (some_outputs(texts=()), "0 texts for 2 rows"),
        (some_outputs(texts=(b"1", b"1" * (MOST_TEXT_BYTES + 1))), "a text of 16777217 bytes"),
    ],
)
def test_misshapen_batches_are_named(batch: Batch, reason: str) -> None:
    with pytest.raises(MisshapenBatch, match=reason):
        rows_of(batch, batch_key_of(batch, 1, REQUESTED_NS))


def test_texts_that_postgresql_cannot_hold_are_made_such(session: Any) -> None:
    stored = _stored(session, some_queries(error_rows=(0,), error_texts=("a\0b\ud800",)))
    assert [row[12] for row in stored if row[12]] == ["ab?"]


def test_an_empty_batch_has_no_rows() -> None:
    empty = np.array([], dtype="<i4").tobytes()
    batch = some_outputs(count=1).model_copy(
        update={"count": 0, "query": empty, "sample": empty, "texts": ()}
    )
    assert rows_of(batch, batch_key_of(batch, 1, REQUESTED_NS)) == b""
