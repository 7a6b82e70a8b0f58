"""Queries as spans: the lanes of the load, above those of the model. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlscope.tracing.lanes import LOAD, Codes, LaneKey, code_of
from schemas.trace import QUERY_KIND, QUERY_STATUSES

Ns = npt.NDArray[np.int64]

STATUSES = QUERY_STATUSES
LATE, QUEUED = "issued late", "queued"
LOAD_NAMES = (*STATUSES, LATE, QUEUED)
_QUERY, _LATE, _QUEUED = range(3)


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


def load_of(queries: Mapping[str, npt.NDArray[Any]]) -> Load:
    """Return the spans of `queries`, the columns of a batch or of all of a run."""
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
