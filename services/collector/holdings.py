"""I/O: which runs the log says are stored, and the database does not have.

A database that was dropped, emptied, exchanged, or restored from an older backup lacks runs whose
`RunRecorded` is in the log. Comparing what it holds notices all of these; an identity in the
database would notice none of them but the exchange.
"""

import asyncio
import logging
from array import array

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
_COMPARED_AT_ONCE = 2000
"""The run keys in one question to the database, so that its memory does not grow with the log."""


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
        #: the run keys of the newest runs that the log says are stored, int64, oldest first: as
        #: objects with their evaluations they would take twenty times as much
        self._recorded = array("q")
        #: the evaluation of each missing run, by run key
        self._evaluations: dict[int, str] = {}
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
                    self._recorded.append(run_key(fact.evaluation, fact.run, fact.attempt))
            del self._recorded[: max(len(self._recorded) - self._most_runs, 0)]
        missing: set[int] = set()
        for first in range(0, len(self._recorded), _COMPARED_AT_ONCE):
            run_keys = self._recorded[first : first + _COMPARED_AT_ONCE].tolist()
            missing.update(await patiently((), self._store.missing_runs, run_keys))
        before, self._missing = self._missing, frozenset(missing)
        lost = await self._evaluations_of(before & self._missing)
        if newly_lost := lost - self.lost:
            _log.error(
                "the database has lost rows of %s, those of %s among them: it was emptied, "
                "exchanged, or restored from an older backup; restore a newer one",
                many(len(lost), "evaluation"),
                min(newly_lost),
            )
        self.lost = lost
        await self._count_unsaved()

    async def _evaluations_of(self, run_keys: frozenset[int]) -> frozenset[str]:
        """Return the evaluations of runs, which are read from the log again: few are ever missing.

        Raises BusError.
        """
        after, unknown = 0, run_keys - self._evaluations.keys()
        while unknown and (
            page := await self._bus.read(recorded_runs(), after=after, at_most=_PAGE_FACTS)
        ):
            after = page[-1].sequence
            for fact in (recorded.fact for recorded in page):
                if isinstance(fact, RunRecorded):
                    key = run_key(fact.evaluation, fact.run, fact.attempt)
                    if key in unknown:
                        self._evaluations[key] = fact.evaluation
        self._evaluations = {
            key: evaluation for key, evaluation in self._evaluations.items() if key in run_keys
        }
        return frozenset(self._evaluations.values())

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
