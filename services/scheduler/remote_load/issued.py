"""The queries of a remote load as rows, filled in as answers come, and batches of them. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlscope.tracing.batches import failed_column
from schemas.batch import QueriesAnswered
from schemas.plan import WorkOrder
from services.scheduler.remote_load.query_status import LOST

SOURCE = "scheduler"
"""What batches of remote queries name in place of an agent."""

Queries = NDArray[np.int32]
"""Numbers of queries."""

_ROWS_A_BATCH = 5000


@dataclass(frozen=True, eq=False)
class LoadRecord:
    """A row for each query: int64 [queries], ns from `origin_ns`, -1 where there is no time yet.

    `origin_ns` is of CLOCK_MONOTONIC. `status` is int8 [queries]; `errors` are by query.
    """

    origin_ns: int
    due_ns: NDArray[np.int64]
    issued_ns: NDArray[np.int64]
    ended_ns: NDArray[np.int64]
    service_ns: NDArray[np.int64]
    status: NDArray[np.int8]
    errors: dict[int, str]
    #: samples without an answer, of queries that were answered in part
    failed_samples: dict[int, int] = field(default_factory=dict)

    @property
    def queries(self) -> int:
        """The number of queries."""
        return len(self.due_ns)

    @property
    def failed(self) -> int:
        """The number of queries that failed or were lost."""
        return int(np.count_nonzero(self.status))

    @property
    def lost(self) -> int:
        """The number of queries without any answer."""
        return int(np.count_nonzero(self.status == LOST))

    @property
    def late_p99_ns(self) -> int:
        """The 99th percentile of the delay from due time to issue, ns."""
        return int(np.percentile(self.issued_ns - self.due_ns, 99)) if self.queries else 0


class LoadProgress:
    """A load while it is issued; not all of its queries may be.

    `stamps` is memory that another process fills, int64 [queries]: CLOCK_MONOTONIC of each issue,
    0 before. `due_ns` are the due times from `origin_ns`.
    """

    def __init__(
        self, origin_ns: int, due_ns: NDArray[np.int64], stamps: NDArray[np.int64]
    ) -> None:
        queries = len(due_ns)
        issued_ns, ended_ns, service_ns = np.full((3, queries), -1, np.int64)
        status = np.full(queries, LOST, np.int8)
        self.load = LoadRecord(origin_ns, due_ns, issued_ns, ended_ns, service_ns, status, {})
        self._stamps = stamps
        self._is_final = np.zeros(queries, np.bool_)
        self._is_answered = np.zeros(queries, np.bool_)

    @property
    def issued(self) -> int:
        """The number of queries that were issued."""
        return int(np.count_nonzero(self._stamps))

    @property
    def waiting(self) -> int:
        """The number of queries that were issued and have no answer."""
        return int(np.count_nonzero(~self._is_answered & (self._stamps != 0)))

    @property
    def answered(self) -> int:
        """The number of queries with an answer."""
        return int(np.count_nonzero(self._is_answered))

    @property
    def answered_first(self) -> int:
        """The number of queries up to the first one without answer."""
        return int(np.argmin(np.append(self._is_answered, np.False_)))

    def first(self, queries: int) -> LoadRecord:
        """Return the record of the first `queries`."""
        load = self.load
        columns = ("due_ns", "issued_ns", "ended_ns", "service_ns", "status")
        return replace(load, **{name: getattr(load, name)[:queries] for name in columns})

    def take(self, columns: Mapping[str, Any]) -> Queries:
        """Take answers, the reader's `columns`; return the queries whose rows are now final.

        Each query is one of the load's: the reader reports no others.
        """
        query = np.frombuffer(columns["query"], "<i4")
        load = self.load
        load.ended_ns[query] = np.frombuffer(columns["ended_ns"], "<i8") - load.origin_ns
        load.service_ns[query] = np.frombuffer(columns["service_ns"], "<i8")
        load.status[query] = np.frombuffer(columns["status"], "<i1")
        load.errors.update({int(q): str(text) for q, text in columns["errors"].items()})
        load.failed_samples.update({int(q): int(n) for q, n in columns.get("failed", {}).items()})
        self._is_answered[query] = True
        # An answer may overtake its query's stamp; then its row is final with the next answers.
        return self._finish(self._is_answered & (self._stamps != 0))

    def give_up(self) -> Queries:
        """Return the issued queries that are not final yet; those without answer are lost."""
        is_issued = self._stamps != 0
        for query in np.flatnonzero(is_issued & ~self._is_answered).tolist():
            self.load.errors[query] = "no answer"
        return self._finish(is_issued)

    def _finish(self, over: NDArray[np.bool_]) -> Queries:
        queries = np.flatnonzero(over & ~self._is_final).astype(np.int32)
        self._is_final[queries] = True
        self.load.issued_ns[queries] = self._stamps[queries] - self.load.origin_ns
        return queries


def batches_of(
    order: WorkOrder, run: str, load: LoadRecord, queries: Queries, first_sequence: int = 0
) -> Iterator[QueriesAnswered]:
    """Yield batches of the numbered `queries` of a `load`.

    They belong to `run` of `order`, and are counted from `first_sequence`. The time at which the
    agent began is not known here: `started_ns` is the time of issue. The `ended_ns` of a lost query
    is -1.
    """
    for number, first in enumerate(range(0, len(queries), _ROWS_A_BATCH)):
        rows = queries[first : first + _ROWS_A_BATCH]
        error_rows = [row for row, query in enumerate(rows.tolist()) if query in load.errors]
        yield QueriesAnswered(
            evaluation=order.evaluation,
            run=run,
            attempt=order.attempt,
            agent=SOURCE,
            sequence=first_sequence + number,
            count=len(rows),
            query=rows.astype("<i4").tobytes(),
            block=np.zeros(len(rows), "<i2").tobytes(),
            size=np.full(len(rows), order.session.batch_size, "<i4").tobytes(),
            due_ns=load.due_ns[rows].astype("<i8").tobytes(),
            issued_ns=load.issued_ns[rows].astype("<i8").tobytes(),
            started_ns=load.issued_ns[rows].astype("<i8").tobytes(),
            ended_ns=load.ended_ns[rows].astype("<i8").tobytes(),
            service_ns=load.service_ns[rows].astype("<i8").tobytes(),
            status=load.status[rows].astype("<i1").tobytes(),
            failed=failed_column([load.failed_samples.get(query, -1) for query in rows.tolist()])
            if load.failed_samples
            else b"",
            error_rows=tuple(error_rows),
            error_texts=tuple(load.errors[int(rows[row])] for row in error_rows),
        )
