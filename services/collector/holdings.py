"""I/O: which runs the log says are stored, and the database does not have.

A database that was dropped, emptied, exchanged, or restored from an older backup lacks runs whose
`RunRecorded` is in the log. Comparing what it holds notices all of these; an identity in the
database would notice none of them but the exchange.
"""

import asyncio
import logging
from collections import OrderedDict
from sys import intern

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.counts import many
from schemas.run import RunRecorded
from schemas.subjects import recorded_runs
from schemas.values.identity import run_key
from services.collector.errors import CollectorServiceError
from services.collector.saving import patiently
from services.collector.store import Store
from services.collector.stored_batches import StoredBatches

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 60.0
_MOST_RUNS = 100_000
_PAGE_FACTS = 1000


class Holdings:
    """Compares the log with the database, again and again."""

    def __init__(
        self,
        bus: Bus,
        address: str,
        batches: StoredBatches | None = None,
        most_runs: int = _MOST_RUNS,
    ) -> None:
        """Read the log on `bus`, and open a connection to the database at `address`.

        `batches` are those stored recently, also of runs under way. The newest `most_runs` are
        compared: an older database lacks those before all others.
        """
        self._bus = bus
        self._batches = batches or StoredBatches()
        self._most_runs = most_runs
        self._store = Store(address)
        self._sequence = 0
        #: the evaluation of each of the newest runs that the log says are stored, by run key
        self._recorded: OrderedDict[int, str] = OrderedDict()
        #: the run keys that were missing at the last comparison
        self._missing: frozenset[int] = frozenset()
        self.lost: frozenset[str] = frozenset()
        """The evaluations of which the database lacks a run that was stored."""
        self.unsaved = 0
        """How many evaluations have rows that no backup has, also of runs under way."""
        self.database_only = 0
        """How many of these have rows that the log has no more, either."""

    async def compare(self) -> None:
        """Compare log and database; lost is what is missing twice, as a fact comes before its mark.

        Raises BusError, CollectorServiceError.
        """
        while page := await self._bus.read(
            recorded_runs(), after=self._sequence, at_most=_PAGE_FACTS
        ):
            for recorded in page:
                fact = recorded.fact
                self._sequence = recorded.sequence
                if isinstance(fact, RunRecorded):
                    key = run_key(fact.evaluation, fact.run, fact.attempt)
                    self._recorded[key] = intern(fact.evaluation)
            while len(self._recorded) > self._most_runs:
                self._recorded.popitem(last=False)
        missing = await patiently((), self._store.missing_runs, list(self._recorded))
        before, self._missing = self._missing, frozenset(missing)
        both = before & self._missing & self._recorded.keys()
        lost = frozenset(self._recorded[key] for key in both)
        if newly_lost := lost - self.lost:
            _log.error(
                "the database has lost rows of %s, those of %s among them: it was emptied, "
                "exchanged, or restored from an older backup; restore a newer one",
                many(len(lost), "evaluation"),
                min(newly_lost),
            )
        self.lost = lost
        await self._count_unsaved()

    async def _count_unsaved(self) -> None:
        saved_up_to = await patiently((), self._store.saved_up_to)
        left_up_to = await patiently((), self._store.left_up_to)
        evaluations = self._batches.unsaved(saved_up_to, left_up_to)
        counts = await patiently((), self._store.unsaved_evaluations, *evaluations)
        self.unsaved, self.database_only = counts

    async def watch(self) -> None:
        """Compare now and then, without end."""
        while True:
            try:
                await self.compare()
            except (BusError, CollectorServiceError) as error:
                _log.warning("log and database are not compared for now: %s", error)
            await asyncio.sleep(_LOOK_EVERY_S)

    def close(self) -> None:
        """Close the connection."""
        self._store.close()
