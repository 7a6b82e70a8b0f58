"""Rows to batches and back. Pure: the layout is that of `schemas.batch`, little-endian columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from mlscope.tracing.spans import LinkedRow, Row
from mlscope.tracing.texts import plain_text
from schemas.batch import Batch, OutputsPredicted, QueriesAnswered, SpanKind, TraceCaptured

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
LINK_COLUMNS: Mapping[str, str] = {"kind": "<i1", "correlation": "<i8"}
"""Columns of TraceCaptured that may be empty: then every row has its default."""
LINKED_COLUMNS: Mapping[str, str] = {**TRACE_COLUMNS, **LINK_COLUMNS}
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
    "failed": "<i4",
}
OUTPUT_COLUMNS: Mapping[str, str] = {"query": "<i4", "sample": "<i4"}

_ALWAYS_OF_QUERIES = {name: kind for name, kind in QUERY_COLUMNS.items() if name != "failed"}

ABSENT = -1
DEFAULTS: Mapping[str, int] = {
    "failed": ABSENT,
    "kind": SpanKind.HOST,
    "correlation": ABSENT,
}
"""Columns that a batch leaves out (no bytes) where each row has this value."""

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
    packed = _packed(TRACE_COLUMNS, columns, attempt.origin_ns)
    return _traced(attempt, sequence, packed, _Texts(columns[3], attributes, names))


def linked_batch(
    attempt: Attempt, sequence: int, rows: Sequence[LinkedRow], names: Mapping[str, int]
) -> TraceCaptured:
    """Return linked spans as a batch, with its kinds and correlations."""
    *columns, attributes, kinds, correlations = zip(*rows, strict=True)
    packed = _packed(LINKED_COLUMNS, [*columns, kinds, correlations], attempt.origin_ns)
    return _traced(attempt, sequence, packed, _Texts(columns[3], attributes, names))


@dataclass(frozen=True, slots=True)
class _Texts:
    """A batch's texts: the number of each row's name, its attributes, and all names by text."""

    numbers: Sequence[int]
    attributes: Sequence[bytes]
    names: Mapping[str, int]


def _traced(
    attempt: Attempt, sequence: int, packed: Mapping[str, bytes], told: _Texts
) -> TraceCaptured:
    used = set(told.numbers)
    texts = {number: text for text, number in told.names.items() if number in used}
    noted = [index for index, text in enumerate(told.attributes) if text]
    return TraceCaptured(
        **_identity(attempt, sequence, len(told.numbers)),
        name_ids=tuple(texts),
        name_texts=tuple(plain_text(text) for text in texts.values()),
        **packed,
        attribute_rows=tuple(noted),
        attribute_texts=tuple(told.attributes[index] for index in noted),
    )


def query_batch(
    attempt: Attempt,
    sequence: int,
    rows: Sequence[QueryRow],
    failed_samples: Mapping[int, int] = MappingProxyType({}),
) -> QueriesAnswered:
    """Return queries as a batch; `failed_samples` has those answered in part, by query."""
    *columns, errors = zip(*rows, strict=True)
    told = [index for index, text in enumerate(errors) if text]
    partial = [failed_samples.get(query, ABSENT) for query in columns[0]] if failed_samples else ()
    return QueriesAnswered(
        **_identity(attempt, sequence, len(rows)),
        **_packed(_ALWAYS_OF_QUERIES, columns, attempt.origin_ns),
        failed=failed_column(partial),
        error_rows=tuple(told),
        error_texts=tuple(plain_text(errors[index]) for index in told),
    )


def failed_column(samples: Sequence[int]) -> bytes:
    """Return the column `failed` of a batch: nothing where no query was answered in part."""
    if all(each <= 0 for each in samples):
        return b""
    return np.array(samples, dtype=QUERY_COLUMNS["failed"]).tobytes()


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

    Stamps stay offsets from the attempt's origin. Columns that may be empty are there when they
    are not (`is_linked`).
    """
    arrays = {
        name: _column(getattr(fact, name), kind, DEFAULTS.get(name), fact.count)
        for name, kind in _columns_for(fact).items()
    }
    wrong = [name for name, array in arrays.items() if len(array) != fact.count]
    if wrong:
        raise ValueError(f"column {wrong[0]} has {len(arrays[wrong[0]])} of {fact.count} values")
    return arrays


def _column(
    body: bytes, kind: str, default: int | None, count: int
) -> npt.NDArray[np.signedinteger]:
    if not body and default is not None:
        return np.full(count, default, dtype=kind)
    return np.frombuffer(body, dtype=kind)


def is_linked(fact: Batch) -> bool:
    """Say whether a batch has the columns that may be empty."""
    return isinstance(fact, TraceCaptured) and bool(fact.kind or fact.correlation)


def _columns_for(fact: Batch) -> Mapping[str, str]:
    if isinstance(fact, TraceCaptured):
        return LINKED_COLUMNS if is_linked(fact) else TRACE_COLUMNS
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
