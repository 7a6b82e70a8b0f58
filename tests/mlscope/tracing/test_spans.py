"""The span buffer."""

import json

from mlscope.tracing.spans import (
    LINKED_ROW_BYTES,
    NO_ATTRIBUTES,
    NO_PARENT,
    ROW_BYTES,
    Row,
    SpanBuffer,
)


def row(span: int, name: int = 0) -> Row:
    return (span, NO_PARENT, 1, name, 10, 5, 1, 0, 0, NO_ATTRIBUTES)


def test_ids_are_reserved_once() -> None:
    buffer = SpanBuffer()
    assert [buffer.reserve(), buffer.reserve(3), buffer.reserve()] == [1, 2, 5]


def test_a_name_has_one_id() -> None:
    buffer = SpanBuffer()
    assert buffer.name_id("decode") == buffer.name_id("decode") != buffer.name_id("resize")
    assert buffer.names == {"decode": 0, "resize": 1}


def test_take_removes_the_oldest() -> None:
    buffer = SpanBuffer()
    for span in range(5):
        buffer.append(row(span))
    assert [taken[0] for taken in buffer.take(3)] == [0, 1, 2]
    assert [taken[0] for taken in buffer.take()] == [3, 4]
    assert len(buffer) == 0


def test_append_still_reaches_the_buffer_after_take() -> None:
    buffer = SpanBuffer()
    append = buffer.append
    append(row(1))
    buffer.take()
    append(row(2))
    assert len(buffer) == 1


def test_attributes_count_towards_the_size() -> None:
    buffer = SpanBuffer()
    text = buffer.note({"type": "Conv"})
    buffer.append((*row(1)[:-1], text))
    assert json.loads(text) == {"type": "Conv"}
    assert buffer.size_bytes == ROW_BYTES + len(text)
    buffer.take()
    assert buffer.size_bytes == 0


def test_linked_rows_are_taken_apart_from_the_others() -> None:
    buffer = SpanBuffer()
    buffer.append(row(1))
    buffer.link((*row(2), 2, 33))
    assert (len(buffer), buffer.size_bytes) == (2, ROW_BYTES + LINKED_ROW_BYTES)
    assert buffer.take() == [row(1)]
    assert buffer.take_linked() == [(*row(2), 2, 33)]
    assert len(buffer) == 0


def test_link_still_reaches_the_buffer_after_it_was_taken() -> None:
    buffer = SpanBuffer()
    link = buffer.link
    link((*row(1), 1, 3))
    buffer.take_linked()
    link((*row(2), 2, 3))
    assert [taken[0] for taken in buffer.take_linked()] == [2]
