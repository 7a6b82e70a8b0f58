"""I/O: analyzes again what a database that was restored from a backup has no tables of.

The analysis of an evaluation was acknowledged and does not come again. A database that was restored
has been started anew; the collector stores again what the streams still have.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from schemas.analysis import AnalysisCompleted
from schemas.evaluation import EvaluationMeasured
from schemas.message import Fact
from schemas.subjects import decisions_of, facts_of
from services.analyzer.errors import NoRuns, RowsMissing
from services.analyzer.patience import until_available
from services.analyzer.store import Store

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 1.0
_TRIES, _PAUSE_S = 10, 2.0
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
        """Look whether the database was started anew, and analyze what lacks tables, forever."""
        known_start = ""
        while True:
            start = await until_available(self._store.server_start)
            try:
                if known_start and start != known_start:
                    await self._analyze_again()
                known_start = start
            except BusError as error:
                _log.warning("nothing is analyzed again for now: %s", error)
            await asyncio.sleep(_LOOK_EVERY_S)

    def close(self) -> None:
        """Close the connection."""
        self._store.close()

    async def _analyze_again(self) -> None:
        """Analyze evaluations that were analyzed and have no tables, once their rows are there."""
        evaluations: list[str] = []
        after = 0
        subject = facts_of(AnalysisCompleted)
        while page := await self._bus.read(subject, after=after, at_most=_PAGE_FACTS):
            after = page[-1].sequence
            named = [
                entry.fact.evaluation for entry in page if isinstance(entry.fact, AnalysisCompleted)
            ]
            evaluations += await until_available(self._store.without_tables, named)
        for _ in range(_TRIES):
            evaluations = [one for one in evaluations if not await self._is_analyzed(one)]
            if not evaluations:
                return
            await asyncio.sleep(_PAUSE_S)
        _log.warning("%d evaluations lost their rows and tables", len(evaluations))

    async def _is_analyzed(self, evaluation: str) -> bool:
        """Analyze an evaluation; tell whether that is done, or will never be."""
        facts = [entry.fact for entry in await self._bus.read(decisions_of(evaluation))]
        measured = [fact for fact in facts if isinstance(fact, EvaluationMeasured)]
        place = {"evaluation": evaluation}
        try:
            for fact in measured:
                await self._analyze(fact, facts)
                _log.warning("analyzed again: a restored database had no tables", extra=place)
        except (NoRuns, RowsMissing):
            return False
        except Exception:  # noqa: BLE001 (a service goes on: this evaluation stays without)
            _log.exception("not analyzed again", extra=place)
        return True
