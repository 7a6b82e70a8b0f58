"""Issues local queries: one after another, several at a time, or at their due times."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from mlscope.load.load import Load
from mlscope.load.pacer import PacerProcess
from mlscope.tracing.batches import ABSENT
from mlscope.tracing.clock import now_ns
from services.agent.machine.cores import ANYWHERE
from services.agent.machine.noise import usable_core_numbers
from services.agent.worker.queries.query import Query

Check = Callable[[], None]
"""Raises Stopped or RunTimedOut when the run must end."""


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Queries of which the next one is issued when one has ended; `in_flight` are under way."""

    queries: Iterator[Query]
    in_flight: int


class Gate(Protocol):
    """Limits how many queries are in flight."""

    def enter(self) -> None:
        """Wait until one more query may begin."""
        ...


def closed_loop(
    load: Load, block: int, first_query: int, gate: Gate, check: Check
) -> Iterator[Query]:
    """Yield each query of a `load` when the `gate` lets it in.

    `first_query` is the number of the `block`'s first query; `check` raises when the run must end.
    """
    for offset, samples in enumerate(load.sample_indices.tolist()):
        check()
        gate.enter()
        yield Query(first_query + offset, samples, now_ns(), block=block)


def open_loop(
    load: Load, block: int, first_query: int, pacer: PacerProcess, check: Check
) -> Iterator[Query]:
    """Yield each query of a `load` when the `pacer`, entered but not started, issues it.

    `first_query` is the number of the `block`'s first query; `check` raises when the run must end.
    `issued_ns` is the pacer's own stamp. Due times do not move when the agent falls behind.
    """
    assert load.due_ns is not None
    samples = load.sample_indices.tolist()
    origin_ns = pacer.start()
    for offset, issued_ns in pacer:
        check()
        due_ns = origin_ns + int(load.due_ns[offset])
        yield Query(first_query + offset, samples[offset], issued_ns, due_ns, block)


def paced(
    load: Load, predicting_cores: frozenset[int] = ANYWHERE
) -> AbstractContextManager[PacerProcess]:
    """Return the pacer of an open `load`; it is entered before the block.

    It spins before each query, at a priority above the thread that is kept on `predicting_cores`,
    and so leaves them alone.
    """
    assert load.due_ns is not None
    other_cores = usable_core_numbers() - predicting_cores if predicting_cores else ()
    return PacerProcess(load.due_ns, cores=other_cores)


def is_inline(load: Load) -> bool:
    """Return whether at most one query is ever in flight, so that no thread is needed."""
    return load.due_ns is None and load.concurrency == 1


NOT_DUE = ABSENT
"""The due time of a closed loop's queries."""
