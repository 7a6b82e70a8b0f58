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
"""Columns of TraceCaptured that may be empty: then every row has the default."""
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

_REQUIRED_QUERY_COLUMNS = {name: kind for name, kind in QUERY_COLUMNS.items() if name != "failed"}

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
    """The attempt that rows belong to, and the origin (CLOCK_MONOTONIC ns) of their times."""

    evaluation: str
    run: str
    attempt: int
    agent: str
    origin_ns: int = 0


def trace_batch(
    attempt: Attempt, sequence: int, rows: Sequence[Row], names: Mapping[str, int]
) -> TraceCaptured:
    """Return `rows`, spans, as a batch.

    `attempt`, `sequence`: which batch of which attempt. `names`: the attempt's interned names by
    text.
    """
    *columns, attributes = zip(*rows, strict=True)
    packed = _packed(TRACE_COLUMNS, columns, attempt.origin_ns)
    return _trace_captured(attempt, sequence, packed, _Texts(columns[3], attributes, names))


def linked_batch(
    attempt: Attempt, sequence: int, rows: Sequence[LinkedRow], names: Mapping[str, int]
) -> TraceCaptured:
    """Return `rows`, linked spans, as a batch with kinds and correlations.

    `attempt`, `sequence`: which batch of which attempt. `names`: the attempt's interned names by
    text.
    """
    *columns, attributes, kinds, correlations = zip(*rows, strict=True)
    packed = _packed(LINKED_COLUMNS, [*columns, kinds, correlations], attempt.origin_ns)
    return _trace_captured(attempt, sequence, packed, _Texts(columns[3], attributes, names))


@dataclass(frozen=True, slots=True)
class _Texts:
    """A batch's texts: the number of each row's name, its attributes, and all names by text."""

    numbers: Sequence[int]
    attributes: Sequence[bytes]
    names: Mapping[str, int]


def _trace_captured(
    attempt: Attempt, sequence: int, packed: Mapping[str, bytes], texts: _Texts
) -> TraceCaptured:
    used = set(texts.numbers)
    names = {number: name for name, number in texts.names.items() if number in used}
    with_attributes = [index for index, text in enumerate(texts.attributes) if text]
    return TraceCaptured(
        **_identity(attempt, sequence, len(texts.numbers)),
        name_ids=tuple(names),
        name_texts=tuple(map(plain_text, names.values())),
        **packed,
        attribute_rows=tuple(with_attributes),
        attribute_texts=tuple(texts.attributes[index] for index in with_attributes),
    )


def query_batch(
    attempt: Attempt,
    sequence: int,
    rows: Sequence[QueryRow],
    failed_samples: Mapping[int, int] = MappingProxyType({}),
) -> QueriesAnswered:
    """Return `rows`, queries, as a batch.

    `attempt`, `sequence`: which batch of which attempt. `failed_samples`: how many samples failed,
    by query, of queries that were answered in part.
    """
    *columns, errors = zip(*rows, strict=True)
    with_error = [index for index, text in enumerate(errors) if text]
    partial = [failed_samples.get(query, ABSENT) for query in columns[0]] if failed_samples else ()
    return QueriesAnswered(
        **_identity(attempt, sequence, len(rows)),
        **_packed(_REQUIRED_QUERY_COLUMNS, columns, attempt.origin_ns),
        failed=failed_column(partial),
        error_rows=tuple(with_error),
        error_texts=tuple(plain_text(errors[index]) for index in with_error),
    )


def failed_column(samples: Sequence[int]) -> bytes:
    """Return the column `failed` of a batch: empty where no query was answered in part."""
    if all(failed <= 0 for failed in samples):
        return b""
    return np.array(samples, dtype=QUERY_COLUMNS["failed"]).tobytes()


def output_batch(attempt: Attempt, sequence: int, rows: Sequence[OutputRow]) -> OutputsPredicted:
    """Return `rows`, predictions, as a batch.

    `attempt`, `sequence`: which batch of which attempt.
    """
    *columns, texts = zip(*rows, strict=True)
    return OutputsPredicted(
        **_identity(attempt, sequence, len(rows)),
        **_packed(OUTPUT_COLUMNS, columns, 0),
        texts=tuple(texts),
    )


def columns_of(fact: Batch) -> dict[str, npt.NDArray[np.signedinteger]]:
    """Return a batch's columns as arrays of `count` values. Raises ValueError when they don't fit.

    Times stay offsets from the attempt's origin. Columns that may be empty are included where they
    are not (`is_linked`).
    """
    if isinstance(fact, TraceCaptured):
        kinds = LINKED_COLUMNS if is_linked(fact) else TRACE_COLUMNS
    else:
        kinds = QUERY_COLUMNS if isinstance(fact, QueriesAnswered) else OUTPUT_COLUMNS
    arrays = {}
    for name, kind in kinds.items():
        array = np.frombuffer(getattr(fact, name), dtype=kind)
        if name in DEFAULTS and not len(array):
            array = np.full(fact.count, DEFAULTS[name], dtype=kind)
        if len(array) != fact.count:
            raise ValueError(f"column {name} has {len(array)} of {fact.count} values")
        arrays[name] = array
    return arrays


def is_linked(fact: Batch) -> bool:
    """Say whether a batch has the columns that may be empty."""
    return isinstance(fact, TraceCaptured) and bool(fact.kind or fact.correlation)


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
