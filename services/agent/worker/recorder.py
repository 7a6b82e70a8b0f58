"""The rows that a run leaves behind, collected in the worker and handed over in batches."""

from collections.abc import Callable, Iterator
from typing import TypeVar

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
from mlscope.tracing.spans import LINKED_ROW_BYTES, ROW_BYTES, SpanBuffer
from schemas.batch import Batch
from schemas.run import Tally
from services.agent.link.batches import pack_batch

T = TypeVar("T")

HandOver = Callable[[bytes], bool]
"""Takes a packed batch; returns False when there is no room left for it."""


class RunRecorder:
    """Rows of one attempt: spans, queries, outputs, and the tally of what was handed over.

    A sequence number is used only for a batch that found room, so that none is missing; a batch
    without room is counted as dropped. With `waits_for_flush` batches wait for `flush`.
    """

    def __init__(
        self, attempt: Attempt, hand_over: HandOver, *, waits_for_flush: bool = False
    ) -> None:
        """Record rows of an `attempt`; `hand_over` takes its batches."""
        self.attempt = attempt
        self.spans = SpanBuffer()
        self._hand_over = hand_over
        self._waits_for_flush = waits_for_flush
        self._queries: list[QueryRow] = []
        self._failed_samples: dict[int, int] = {}
        self._outputs: list[OutputRow] = []
        self._flushed_ns = 0
        self._counts = dict.fromkeys(Tally.model_fields, 0)

    def query(self, row: QueryRow, failed_samples: int = 0) -> None:
        """Record a query; `failed_samples` have no answer, where it was answered in part."""
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
        """Hand over the rows when there are 500, or 256 KiB, or they are 100 ms old."""
        if self._waits_for_flush:
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
        """Hand over every row."""
        for spans in _chunks(self.spans.take(), lambda row: ROW_BYTES + len(row[9])):
            names = self.spans.names
            traced = trace_batch(self.attempt, self._counts["trace_batches"], spans, names)
            self._hand("trace_batches", "spans", len(spans), traced)
        for linked in _chunks(self.spans.take_linked(), lambda row: LINKED_ROW_BYTES + len(row[9])):
            names = self.spans.names
            traced = linked_batch(self.attempt, self._counts["trace_batches"], linked, names)
            self._hand("trace_batches", "spans", len(linked), traced)
        queries, self._queries = self._queries, []
        failed_samples, self._failed_samples = self._failed_samples, {}
        for rows in _chunks(queries, lambda row: ROW_BYTES + len(row[9])):
            number = self._counts["query_batches"]
            answered = query_batch(self.attempt, number, rows, failed_samples)
            self._hand("query_batches", "queries", len(rows), answered)
        outputs, self._outputs = self._outputs, []
        for predictions in _chunks(outputs, lambda row: len(row[2])):
            predicted = output_batch(self.attempt, self._counts["output_batches"], predictions)
            self._hand("output_batches", "outputs", len(predictions), predicted)

    def tally(self) -> Tally:
        """Return the counts of what was handed over so far."""
        return Tally(**self._counts)

    def _hand(self, batches: str, rows: str, count: int, fact: Batch) -> None:
        if self._hand_over(pack_batch(fact)):
            self._counts[batches] += 1
            self._counts[rows] += count
        else:
            self._counts["dropped_batches"] += 1


def _chunks(rows: list[T], size_bytes: Callable[[T], int]) -> Iterator[list[T]]:
    """Split rows into chunks of at most 500 rows, and 256 KiB not counting the last row."""
    chunk: list[T] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += size_bytes(row)
        if len(chunk) == FLUSH_ROWS or size >= FLUSH_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
