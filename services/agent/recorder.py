"""What a run leaves behind, gathered in the worker and handed over in finished batches."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgpack

from mlscope.tracing.batches import (
    ANSWERED,
    FLUSH_BYTES,
    FLUSH_NS,
    FLUSH_ROWS,
    Attempt,
    OutputRow,
    QueryRow,
    linked_batch,
    output_batch,
    query_batch,
    trace_batch,
)
from mlscope.tracing.spans import LINKED_ROW_BYTES, ROW_BYTES, LinkedRow, Row, SpanBuffer
from schemas.batch import Batch
from schemas.catalogue import FACTS
from schemas.codec import parse, unpack
from schemas.run import Tally

T = TypeVar("T")

HandOver = Callable[[bytes], bool]
"""Takes a packed batch; False when there is no room left for it."""


def pack_batch(fact: Batch) -> bytes:
    """Return a batch as it crosses from worker to agent."""
    packed: bytes = msgpack.packb({"schema": fact.schema_name(), "data": fact.model_dump()})
    return packed


def unpack_batch(body: bytes) -> Batch:
    """Return a batch as the worker packed it. Raises MalformedMessage."""
    value = unpack(body)
    return parse(FACTS[value["schema"]], value["data"])  # type: ignore[return-value]


class Recorder:
    """Rows of one attempt: spans, queries, outputs, and the tally of what was handed over.

    A sequence number is spent only on a batch that found room, so that none is missing; what
    found none is counted as dropped. With `holds`, batches wait for `flush`.
    """

    def __init__(self, attempt: Attempt, hand_over: HandOver, *, holds: bool = False) -> None:
        self.attempt = attempt
        self.spans = SpanBuffer()
        self._hand_over = hand_over
        self._holds = holds
        self._queries: list[QueryRow] = []
        self._failed_samples: dict[int, int] = {}
        self._outputs: list[OutputRow] = []
        self._flushed_ns = 0
        self._counts = dict.fromkeys(Tally.model_fields, 0)

    def query(self, row: QueryRow, failed_samples: int = 0) -> None:
        """Record a query; of one answered in part `failed_samples` have no answer."""
        self._queries.append(row)
        if row[8] != ANSWERED:
            self._counts["failed_queries"] += 1
        elif failed_samples:
            self._failed_samples[row[0]] = failed_samples
            self._counts["failed_samples"] += failed_samples

    def output(self, row: OutputRow) -> None:
        """Record a prediction."""
        self._outputs.append(row)

    def flush_due(self, now_ns: int) -> None:
        """Hand over what there is when it is 500 rows, 256 KiB or 100 ms old."""
        if self._holds:
            return
        self._flushed_ns = self._flushed_ns or now_ns
        if (
            now_ns - self._flushed_ns >= FLUSH_NS
            or len(self.spans) >= FLUSH_ROWS
            or len(self._queries) >= FLUSH_ROWS
            or self.spans.size_bytes >= FLUSH_BYTES
        ):
            self._flushed_ns = now_ns
            self.flush()

    def flush(self) -> None:
        """Hand over everything."""
        for spans in _chunks(self.spans.take(), _span_bytes):
            names = self.spans.names
            traced = trace_batch(self.attempt, self._counts["trace_batches"], spans, names)
            self._hand("trace_batches", "spans", len(spans), traced)
        for linked in _chunks(self.spans.take_linked(), _linked_bytes):
            names = self.spans.names
            traced = linked_batch(self.attempt, self._counts["trace_batches"], linked, names)
            self._hand("trace_batches", "spans", len(linked), traced)
        queries, self._queries = self._queries, []
        partial, self._failed_samples = self._failed_samples, {}
        for rows in _chunks(queries, _query_bytes):
            answered = query_batch(self.attempt, self._counts["query_batches"], rows, partial)
            self._hand("query_batches", "queries", len(rows), answered)
        outputs, self._outputs = self._outputs, []
        for some in _chunks(outputs, _output_bytes):
            predicted = output_batch(self.attempt, self._counts["output_batches"], some)
            self._hand("output_batches", "outputs", len(some), predicted)

    def tally(self) -> Tally:
        """Return what was handed over so far."""
        return Tally(**self._counts)

    def _hand(self, batches: str, rows: str, count: int, fact: Batch) -> None:
        if self._hand_over(pack_batch(fact)):
            self._counts[batches] += 1
            self._counts[rows] += count
        else:
            self._counts["dropped_batches"] += 1


def _chunks(rows: list[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Split rows so that none of the batches is above 500 rows, or 256 KiB but for its last row."""
    chunk: list[T] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += size_of(row)
        if len(chunk) == FLUSH_ROWS or size >= FLUSH_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _span_bytes(row: Row) -> int:
    return ROW_BYTES + len(row[9])


def _linked_bytes(row: LinkedRow) -> int:
    return LINKED_ROW_BYTES + len(row[9])


def _query_bytes(row: QueryRow) -> int:
    return ROW_BYTES + len(row[9])


def _output_bytes(row: OutputRow) -> int:
    return len(row[2])
