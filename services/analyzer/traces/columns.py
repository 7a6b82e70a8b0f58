"""The columns of a run's spans and queries as they are read: one array each. Pure.

A string of big-endian integers is the fastest way to read a column (see `frames.columns`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from mlscope.tracing.lanes import LOAD, Codes, LaneKey, code_of
from schemas.trace import QUERY_KIND

Ns = npt.NDArray[np.int64]
Columns = Mapping[str, npt.NDArray[Any]]

WIRE: Mapping[str, str] = MappingProxyType(
    {
        "span": ">i8",
        "parent": ">i8",
        "level": ">i2",
        "name": ">i4",
        "start_ns": ">i8",
        "duration_ns": ">i8",
        "thread": ">i4",
        "query": ">i4",
        "kind": ">i2",
        "correlation": ">i8",
        "device": ">i4",
    }
)
QUERY_WIRE: Mapping[str, str] = MappingProxyType(
    {
        "query": ">i4",
        "due_ns": ">i8",
        "issued_ns": ">i8",
        "started_ns": ">i8",
        "ended_ns": ">i8",
        "status": ">i2",
    }
)
SAMPLE_WIRE: Mapping[str, str] = MappingProxyType({"span": ">i8", "value": ">f8"})

STATUSES = ("answered", "failed", "lost")
LATE, QUEUED = "issued late", "queued"
LOAD_NAMES = (*STATUSES, LATE, QUEUED)
_QUERY, _LATE, _QUEUED = range(3)


def unpacked(row: Mapping[str, bytes | None], wire: Mapping[str, str]) -> Columns:
    """Return the columns of a row of byte strings; absent ones are empty."""
    return {
        name: np.frombuffer(row.get(name) or b"", kind).astype(np.dtype(kind).newbyteorder("="))
        for name, kind in wire.items()
    }


def joined(pages: Sequence[Columns]) -> Columns:
    """Return the columns of several pages as one."""
    return {name: np.concatenate([page[name] for page in pages]) for name in pages[0]}


@dataclass(frozen=True, slots=True)
class Load:
    """Spans that show the load, a lane for each phase; `name` is an index into `LOAD_NAMES`.

    The whole query runs from when it was due, or issued, to its answer; it was late from due to
    issued and queued from issued to started. Ids are negative: -1 is the first query.
    """

    code: Codes
    start: Ns
    end: Ns
    name: Ns
    query: Ns
    id: Ns

    @property
    def kind(self) -> npt.NDArray[np.int16]:
        """The kind of each, which no span of a model has."""
        return np.full(len(self.id), QUERY_KIND, np.int16)


def load_of(queries: Columns) -> Load:
    """Return the spans of a run's queries."""
    due, issued = queries["due_ns"], queries["issued_ns"]
    began = np.where(due >= 0, due, issued)
    ended = np.maximum(queries["ended_ns"], began)
    status = np.clip(queries["status"], 0, len(STATUSES) - 1).astype(np.int64)
    late = np.full(len(due), LOAD_NAMES.index(LATE))
    queued = np.full(len(due), LOAD_NAMES.index(QUEUED))
    phases = (
        (_QUERY, began, ended, status, np.ones(len(due), bool)),
        (_LATE, due, issued, late, (due >= 0) & (issued > due)),
        (_QUEUED, issued, queries["started_ns"], queued, queries["started_ns"] > issued),
    )
    parts = [
        (
            np.full(int(is_there.sum()), code_of(LaneKey(LOAD, phase, 0, 0)), np.int64),
            start[is_there],
            end[is_there],
            name[is_there],
            queries["query"][is_there].astype(np.int64),
            -1 - phase - len(phases) * queries["query"][is_there].astype(np.int64),
        )
        for phase, start, end, name, is_there in phases
    ]
    return Load(*(np.concatenate(column) for column in zip(*parts, strict=True)))
