"""Rows to batches and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.tracing.batches import (
    Attempt,
    OutputRow,
    QueryRow,
    columns_of,
    linked_batch,
    output_batch,
    query_batch,
    trace_batch,
)
from mlscope.tracing.spans import LinkedRow, Row
from schemas.batch import SpanKind, TraceCaptured
from schemas.encoding.codec import decode_body, encode_body

ATTEMPT = Attempt("e1", "r1", 1, "a1", origin_ns=1_000)
STAMPS = st.integers(1_000, 1 << 60)
ROWS = st.tuples(
    st.integers(1, 1 << 62),
    st.integers(-1, 1 << 62),
    st.integers(0, 7),
    st.integers(0, 2),
    STAMPS,
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 30),
    st.integers(0, 1 << 30),
    st.integers(0, 1_000),
    st.sampled_from([b"", b'{"type":"Conv"}']),
)
NAMES = {"query": 0, "predict": 1, "conv1": 2, "unused": 9}


@given(st.lists(ROWS, min_size=1, max_size=20))
def test_spans_survive_the_wire(rows: list[Row]) -> None:
    fact = decode_body(TraceCaptured, encode_body(trace_batch(ATTEMPT, 7, rows, NAMES)))
    columns = columns_of(fact)
    assert columns["span"].tolist() == [row[0] for row in rows]
    assert columns["parent"].tolist() == [row[1] for row in rows]
    assert columns["start_ns"].tolist() == [row[4] - 1_000 for row in rows]
    assert columns["block"].tolist() == [row[8] for row in rows]
    noted = dict(zip(fact.attribute_rows, fact.attribute_texts, strict=True))
    assert [noted.get(index, b"") for index in range(len(rows))] == [row[9] for row in rows]


@given(
    st.lists(
        st.tuples(ROWS, st.sampled_from(SpanKind), st.integers(-1, 1 << 62)),
        min_size=1,
        max_size=20,
    )
)
def test_linked_spans_survive_the_wire(parts: list[tuple[Row, SpanKind, int]]) -> None:
    rows: list[LinkedRow] = [(*row, kind, correlation) for row, kind, correlation in parts]
    fact = decode_body(TraceCaptured, encode_body(linked_batch(ATTEMPT, 7, rows, NAMES)))
    columns = columns_of(fact)
    assert columns["kind"].tolist() == [row[10] for row in rows]
    assert columns["correlation"].tolist() == [row[11] for row in rows]
    assert columns["start_ns"].tolist() == [row[4] - 1_000 for row in rows]
    unlinked = trace_batch(ATTEMPT, 7, [row for row, _, _ in parts], NAMES)
    assert unlinked == fact.model_copy(update={"kind": b"", "correlation": b""})


def test_a_column_left_out_has_its_default_in_every_row() -> None:
    whole = linked_batch(ATTEMPT, 0, [(*_a_row(), 2, 9), (*_a_row(), 1, 9)], NAMES)
    bare = whole.model_copy(update={"kind": b""})
    unjoined = whole.model_copy(update={"correlation": b""})
    assert columns_of(bare)["kind"].tolist() == [0, 0]
    assert columns_of(unjoined)["correlation"].tolist() == [-1, -1]


def test_a_message_of_before_the_columns_is_read() -> None:
    data = trace_batch(ATTEMPT, 0, [_a_row()], NAMES).model_dump()
    del data["kind"], data["correlation"]
    assert "kind" not in columns_of(TraceCaptured.model_validate(data))


def _a_row() -> Row:
    return (1, -1, 5, 1, 2_000, 10, 7, -1, 0, b"")


@given(st.lists(ROWS, min_size=1, max_size=20))
def test_a_batch_names_what_it_uses(rows: list[Row]) -> None:
    fact = trace_batch(ATTEMPT, 0, rows, NAMES)
    names = dict(zip(fact.name_ids, fact.name_texts, strict=True))
    assert set(names) == {row[3] for row in rows}
    assert all(NAMES[text] == number for number, text in names.items())


def test_an_absent_stamp_stays_absent() -> None:
    rows: list[QueryRow] = [
        (0, 0, 4, -1, 1_500, 1_600, 2_000, 400, 0, ""),
        (1, 0, 4, 1_700, 1_750, -1, 2_500, -1, 2, "lost"),
    ]
    fact = query_batch(ATTEMPT, 0, rows)
    columns = columns_of(fact)
    assert columns["due_ns"].tolist() == [-1, 700]
    assert columns["started_ns"].tolist() == [600, -1]
    assert columns["service_ns"].tolist() == [400, -1]
    assert (fact.error_rows, fact.error_texts) == ((1,), ("lost",))


def test_outputs_name_their_samples() -> None:
    rows: list[OutputRow] = [(3, 8, b"[]"), (4, 9, b"[1]")]
    fact = output_batch(ATTEMPT, 2, rows)
    assert columns_of(fact)["sample"].tolist() == [8, 9]
    assert fact.texts == (b"[]", b"[1]")
    assert (fact.sequence, fact.count) == (2, 2)


def test_columns_are_little_endian() -> None:
    fact = output_batch(ATTEMPT, 0, [(258, 1, b"{}")])
    assert fact.query == b"\x02\x01\x00\x00"
    assert columns_of(fact)["query"].dtype == np.dtype("<i4")


def test_a_column_of_another_length_is_refused() -> None:
    fact = output_batch(ATTEMPT, 0, [(1, 1, b"{}")]).model_copy(update={"sample": b""})
    with pytest.raises(ValueError, match="column sample has 0 of 1 values"):
        columns_of(fact)
