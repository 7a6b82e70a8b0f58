"""When queries begin: one after another, several at a time, or at their due times."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from mlscope.load.load import Load
from mlscope.load.pacer import PacerProcess
from mlscope.tracing.batches import ABSENT
from mlscope.tracing.clock import now_ns
from services.agent.query import Query

Check = Callable[[], None]
"""Raises Stopped or RunTimedOut when the run must end."""


class Gate(Protocol):
    """Bounds how many queries are in flight."""

    def enter(self) -> None:
        """Wait until one more may begin."""
        ...


def closed_loop(load: Load, block: int, first: int, gate: Gate, check: Check) -> Iterator[Query]:
    """Yield each query when the gate lets it in; `first` numbers the block's first query."""
    for offset, samples in enumerate(load.sample_indices.tolist()):
        check()
        gate.enter()
        yield Query(first + offset, samples, now_ns(), block=block)


def open_loop(
    load: Load, block: int, first: int, pacer: PacerProcess, check: Check
) -> Iterator[Query]:
    """Yield each query when it is issued, from a pacer that was entered but not started.

    `issued_ns` is the pacer's own stamp. Nothing is moved when the agent falls behind.
    """
    assert load.due_ns is not None
    carried = load.sample_indices.tolist()
    origin_ns = pacer.start()
    for offset, issued_ns in pacer:
        check()
        due_ns = origin_ns + int(load.due_ns[offset])
        yield Query(first + offset, carried[offset], issued_ns, due_ns, block)


def paced(load: Load) -> AbstractContextManager[PacerProcess]:
    """Return the pacer of an open loop, to be entered before the block."""
    assert load.due_ns is not None
    return PacerProcess(load.due_ns)


def is_inline(load: Load) -> bool:
    """Say whether at most one query is ever in flight, so that no thread is needed."""
    return load.due_ns is None and load.concurrency == 1


NOT_DUE = ABSENT
"""The due time of a closed loop's queries."""
