"""I/O: analyzes again what a database that was restored from a backup has no tables of.

The analysis of an evaluation was acknowledged and does not come again. The database is looked at
when the analyzer starts, and whenever its server has been started anew; the collector stores again
what the streams still have. An analysis that failed for missing rows is tried again, too.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from schemas.analysis import AnalysisCompleted, AnalysisFailed
from schemas.evaluation import EvaluationMeasured
from schemas.message import Fact, derived_id
from schemas.subjects import decisions_of, facts_of
from services.analyzer.errors import AnalysisTooLong, CountMissing, NoRuns, RowsMissing
from services.analyzer.patience import TRIES_FOR_ROWS, rows_delay_s, until_available
from services.analyzer.store import Store

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 1.0
_LACKED_ROWS = tuple(f"{error.__name__}: " for error in (NoRuns, RowsMissing, CountMissing))
"""First words of the causes of analyses that failed for missing rows."""
_PAGE_FACTS = 1000

Analyze = Callable[[EvaluationMeasured, Sequence[Fact]], Awaitable[object]]
"""Computes and stores the tables of an evaluation, given the decisions about it."""


class Reanalyst:
    """Notices a database that was started anew, and has evaluations without tables analyzed."""

    def __init__(self, bus: Bus, address: str, analyze: Analyze) -> None:
        """Read the log on `bus`, open a store at `address`, and have `analyze` do the work."""
        self._bus = bus
        self._store = Store(address)
        self._analyze = analyze

    async def watch(self) -> None:
        """Analyze what lacks tables at the first look and after restarts of the database.

        Raises AnalysisTooLong: only the end of the process ends such an analysis.
        """
        known_start = ""
        while True:
            start = await until_available(self._store.server_start)
            try:
                if start != known_start:
                    await self._analyze_again(start)
                known_start = start
            except BusError as error:
                _log.warning("nothing is analyzed again for now: %s", error)
            await asyncio.sleep(_LOOK_EVERY_S)

    def close(self) -> None:
        """Close the connection."""
        self._store.close()

    async def _analyze_again(self, start: str) -> None:
        """Analyze evaluations that can have tables and have none, once their rows are there.

        The wait for rows ends when the database's server has been started anew since `start`.
        """
        lacking: set[str] = set()
        after = 0
        subject = facts_of(AnalysisCompleted)
        while page := await self._bus.read(subject, after=after, at_most=_PAGE_FACTS):
            after = page[-1].sequence
            newest = {
                entry.fact.evaluation: entry.fact
                for entry in page
                if isinstance(entry.fact, AnalysisCompleted | AnalysisFailed)
            }
            repeatable = [
                evaluation
                for evaluation, fact in newest.items()
                if isinstance(fact, AnalysisCompleted) or fact.cause.startswith(_LACKED_ROWS)
            ]
            lacking -= newest.keys()
            lacking.update(await until_available(self._store.without_tables, repeatable))
        for tries in range(1, TRIES_FOR_ROWS + 1):
            for evaluation in await until_available(self._store.with_runs, sorted(lacking)):
                if await self._is_analyzed(evaluation):
                    lacking.remove(evaluation)
            if not lacking:
                return
            await asyncio.sleep(rows_delay_s(tries))
            if await until_available(self._store.server_start) != start:
                return
        _log.warning("%d evaluations lost their rows and tables", len(lacking))

    async def _is_analyzed(self, evaluation: str) -> bool:
        """Analyze an evaluation; tell whether that is done, or will never be.

        Raises AnalysisTooLong, and says so in the log before: the next start leaves it out.
        """
        entries = await self._bus.read(decisions_of(evaluation))
        facts = [entry.fact for entry in entries]
        place = {"evaluation": evaluation}
        for entry in entries:
            if not isinstance(entry.fact, EvaluationMeasured):
                continue
            try:
                await self._analyze(entry.fact, facts)
                _log.warning("analyzed again: a restored database had no tables", extra=place)
            except (NoRuns, RowsMissing):
                return False
            except AnalysisTooLong as error:
                await self._give_up(evaluation, entry.envelope.id, error)
                raise
            except Exception:  # noqa: BLE001 (a service goes on: this evaluation stays without)
                _log.exception("not analyzed again", extra=place)
        return True

    async def _give_up(self, evaluation: str, measured: str, error: AnalysisTooLong) -> None:
        """Say in the log that an `evaluation` gets no tables; `measured` is the id of its fact."""
        failed = AnalysisFailed(evaluation=evaluation, cause=f"{type(error).__name__}: {error}")
        fact_id = derived_id(measured, failed.schema_name(), "again")
        with suppress(BusError):  # Then the next start tries it once more.
            await self._bus.publish(failed, id=fact_id, cause=measured)
