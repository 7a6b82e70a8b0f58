"""I/O: stores the rows of all attempts that were counted, read anew, in a database of their own."""

import asyncio
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from mlscope.bus.bus import Bus
from schemas.run import RunIncomplete, RunRecorded
from schemas.subjects import counted_runs
from schemas.values.identity import run_key
from services.collector.completeness import WaitingAttempt
from services.collector.evaluations import Evaluations
from services.collector.recollecting import DURABLES, Recollector
from services.collector.store import Store

Counted = RunRecorded | RunIncomplete
"""A fact that says how many rows of an attempt were stored."""

_PAGE_FACTS = 1000


@dataclass(frozen=True, slots=True)
class Settlement:
    """The last state of an attempt, and how many batches were stored when it was decided."""

    state: str
    batches: int


def settlement_of(attempt: WaitingAttempt, counted: Counted) -> Settlement | None:
    """Return what the log says of an `attempt`; None if it lacks rows that were `counted`."""
    rows = attempt.rows
    if rows.spans < counted.spans or rows.queries < counted.queries:
        return None
    if rows.outputs < counted.outputs:
        return None
    batches = counted.batches
    if batches is None:
        batches = sum(attempt.announced)
        if isinstance(counted, RunIncomplete):
            batches = counted.stored_batches
    return Settlement("interrupted" if attempt.is_interrupted else counted.happened, batches)


async def rebuild_rows(bus: Bus, address: str) -> Mapping[int, Counted]:
    """Store what the streams on `bus` have in the database at `address`, beside what it has.

    Nothing is published or acknowledged. Attempts are settled of which all rows are there that the
    log says were stored. Returns what it says of each, by run key. Raises BusError,
    CollectorServiceError.
    """
    with closing(Recollector(bus, address, Evaluations(bus), lambda: None)) as recollector:
        await recollector.recollect(dict.fromkeys(DURABLES, 0))
    counted = await _counted(bus)
    with closing(Store(address)) as store:
        for attempt in await asyncio.to_thread(store.waiting):
            fact = counted.get(attempt.run_key)
            settlement = settlement_of(attempt, fact) if fact else None
            if settlement is not None:
                settled = (attempt.run_key, settlement.state, settlement.batches)
                await asyncio.to_thread(store.settle, *settled)
    return counted


async def _counted(bus: Bus) -> dict[int, Counted]:
    """Return the newest count of each attempt, by its run key."""
    newest: dict[int, tuple[int, Counted]] = {}
    for subject in counted_runs():
        after = 0
        while page := await bus.read(subject, after=after, at_most=_PAGE_FACTS):
            after = page[-1].sequence
            for recorded in page:
                fact = recorded.fact
                if isinstance(fact, RunRecorded | RunIncomplete):
                    key = run_key(fact.evaluation, fact.run, fact.attempt)
                    newest[key] = max(
                        newest.get(key, (0, fact)),
                        (recorded.sequence, fact),
                        key=lambda numbered: numbered[0],
                    )
    return {key: fact for key, (_, fact) in newest.items()}
