"""Rows to batches and back. Pure: the layout is that of `schemas.batch`, little-endian columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlscope.tracing.spans import Row
from mlscope.tracing.texts import plain_text
from schemas.batch import Batch, OutputsPredicted, QueriesAnswered, TraceCaptured

FLUSH_ROWS = 500
FLUSH_BYTES = 256 * 1024
FLUSH_NS = 100_000_000

TRACE_COLUMNS: Mapping[str, str] = {
    "span": "<i8",
    "parent": "<i8",
    "level": "<i1",
    "name": "<i4",
    "start_ns": "<i8",
    "duration_ns": "<i8",
    "thread": "<i4",
    "query": "<i4",
    "block": "<i2",
}
QUERY_COLUMNS: Mapping[str, str] = {
    "query": "<i4",
    "block": "<i2",
    "size": "<i4",
    "due_ns": "<i8",
    "issued_ns": "<i8",
    "started_ns": "<i8",
    "ended_ns": "<i8",
    "service_ns": "<i8",
    "status": "<i1",
}
OUTPUT_COLUMNS: Mapping[str, str] = {"query": "<i4", "sample": "<i4"}

ABSENT = -1
ANSWERED, FAILED, LOST = 0, 1, 2

QueryRow = tuple[int, int, int, int, int, int, int, int, int, str]
"""query, block, size, due_ns, issued_ns, started_ns, ended_ns, service_ns, status, error.

Stamps are absolute CLOCK_MONOTONIC nanoseconds or `ABSENT`; `service_ns` is a duration.
"""

OutputRow = tuple[int, int, bytes]
"""query, sample (index in the dataset), JSON text of its features."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Whose rows these are, and the origin (CLOCK_MONOTONIC ns) their stamps count from."""

    evaluation: str
    run: str
    attempt: int
    agent: str
    origin_ns: int = 0


def trace_batch(
    attempt: Attempt, sequence: int, rows: Sequence[Row], names: Mapping[str, int]
) -> TraceCaptured:
    """Return spans as a batch; `names` are the attempt's interned names by text."""
    *columns, attributes = zip(*rows, strict=True)
    used = set(columns[3])
    texts = {number: text for text, number in names.items() if number in used}
    noted = [index for index, text in enumerate(attributes) if text]
    packed = _packed(TRACE_COLUMNS, columns, attempt.origin_ns)
    return TraceCaptured(
        **_identity(attempt, sequence, len(rows)),
        name_ids=tuple(texts),
        name_texts=tuple(plain_text(text) for text in texts.values()),
        **packed,
        attribute_rows=tuple(noted),
        attribute_texts=tuple(attributes[index] for index in noted),
    )


def query_batch(attempt: Attempt, sequence: int, rows: Sequence[QueryRow]) -> QueriesAnswered:
    """Return queries as a batch."""
    *columns, errors = zip(*rows, strict=True)
    failed = [index for index, text in enumerate(errors) if text]
    return QueriesAnswered(
        **_identity(attempt, sequence, len(rows)),
        **_packed(QUERY_COLUMNS, columns, attempt.origin_ns),
        error_rows=tuple(failed),
        error_texts=tuple(plain_text(errors[index]) for index in failed),
    )


def output_batch(attempt: Attempt, sequence: int, rows: Sequence[OutputRow]) -> OutputsPredicted:
    """Return predictions as a batch."""
    *columns, texts = zip(*rows, strict=True)
    return OutputsPredicted(
        **_identity(attempt, sequence, len(rows)),
        **_packed(OUTPUT_COLUMNS, columns, 0),
        texts=tuple(texts),
    )


def columns_of(fact: Batch) -> dict[str, npt.NDArray[np.signedinteger]]:
    """Return a batch's columns as arrays of `count` values. Raises ValueError when they don't fit.

    Stamps stay offsets from the attempt's origin.
    """
    arrays = {
        name: np.frombuffer(getattr(fact, name), dtype=kind)
        for name, kind in _columns_for(fact).items()
    }
    wrong = [name for name, array in arrays.items() if len(array) != fact.count]
    if wrong:
        raise ValueError(f"column {wrong[0]} has {len(arrays[wrong[0]])} of {fact.count} values")
    return arrays


def _columns_for(fact: Batch) -> Mapping[str, str]:
    if isinstance(fact, TraceCaptured):
        return TRACE_COLUMNS
    return QUERY_COLUMNS if isinstance(fact, QueriesAnswered) else OUTPUT_COLUMNS


_STAMPS = frozenset({"start_ns", "due_ns", "issued_ns", "started_ns", "ended_ns"})


def _packed(
    kinds: Mapping[str, str], columns: Sequence[Sequence[int]], origin_ns: int
) -> dict[str, bytes]:
    packed = {}
    for (name, kind), column in zip(kinds.items(), columns, strict=True):
        array = np.array(column, dtype=kind)
        if name in _STAMPS:
            array = np.where(array == ABSENT, ABSENT, array - origin_ns).astype(kind)
        packed[name] = array.tobytes()
    return packed


def _identity(attempt: Attempt, sequence: int, count: int) -> dict[str, object]:
    return {
        "evaluation": attempt.evaluation,
        "run": attempt.run,
        "attempt": attempt.attempt,
        "agent": attempt.agent,
        "sequence": sequence,
        "count": count,
    }
