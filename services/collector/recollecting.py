"""I/O: stores anew what a database restored from a backup lacks and the streams still have.

Rows stay in their streams until a backup has them (`MLSCOPE_KEEP_UNSAVED_BYTES`), but they were
acknowledged and so do not come again. The database notes up to which messages it has rows, so
an older one says what it lacks. It is looked at when the collector starts, and whenever its server
has been started anew.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import cast

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.bus.records import Recorded
from mlscope.bus.streams import durable_named
from schemas.batch import Batch
from schemas.evaluation import RunInterrupted
from schemas.run import RunCompleted, RunFailed, RunIncomplete
from schemas.subjects import story_of
from schemas.values.identity import run_key
from services.collector.errors import CollectorServiceError, DatabaseAway, RefusedRows
from services.collector.evaluations import Evaluations
from services.collector.runs import RunEnded, check_speaker, run_row
from services.collector.saving import patiently, prepared_of
from services.collector.store import Prepared, Store

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 1.0
_PAGE_BATCHES = 80
_PAGE_ENDS = 1000
_BATCHES, _ENDS = ("spans", "queries"), "recorder"
"""The durables whose messages are batches, and the one of the ends of attempts."""
DURABLES = (*_BATCHES, _ENDS)
_ALL_BATCHES = (2**31 - 1,) * 3
"""More batches of each kind than any attempt has."""


class Recollector:
    """Notices a database that was started anew, and stores what it lacks."""

    def __init__(
        self, bus: Bus, address: str, evaluations: Evaluations, stored: Callable[[], None]
    ) -> None:
        """Read the streams on `bus`, and open a connection to the database at `address`.

        `evaluations` reads the decisions; `stored` is called after rows were stored.
        """
        self._bus = bus
        self._store = Store(address)
        self._evaluations = evaluations
        self._stored = stored
        self.rows = 0

    async def watch(self) -> None:
        """Recollect what the database lacks at the first look and after its restarts, forever."""
        known_start, noted = "", dict[str, int]()
        while True:
            start = await patiently((), self._store.server_start)
            try:
                acknowledged = {name: await self._bus.acknowledged(name) for name in DURABLES}
                if start != known_start:
                    marks = await patiently((), self._store.stored_up_to)
                    after = {name: marks.get(name, 0) for name in DURABLES}
                    if not known_start:
                        after = {n: mark for n, mark in after.items() if mark < acknowledged[n]}
                    before = self.rows
                    ends = await self.recollect(after)
                    if self.rows > before or ends:
                        _log.warning(
                            "%d rows and the ends of %d attempts that the database lacked are "
                            "stored from the log",
                            self.rows - before,
                            ends,
                        )
                if start != known_start or acknowledged != noted:
                    await patiently((), self._store.note_stored_up_to, acknowledged, start)
                known_start, noted = start, acknowledged
            except (BusError, CollectorServiceError) as error:
                _log.warning("rows are not recollected for now: %s", error)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def recollect(self, after: Mapping[str, int]) -> int:
        """Store the batches and ends of attempts that the log has and the database lacks.

        Those of a durable are read that come after its sequence in `after`; of a durable that is
        not there, none. Returns how many ends were stored. Raises BusError, CollectorServiceError.
        """
        for name in (batches for batches in _BATCHES if batches in after):
            async for page in self._pages(name, after[name], _PAGE_BATCHES):
                candidates = [await self._prepared(recorded) for recorded in page]
                await self._save([prepared for prepared in candidates if prepared is not None])
        ends = 0
        if _ENDS in after:
            async for page in self._pages(_ENDS, after[_ENDS], _PAGE_ENDS):
                ends += await self._end(page)
        self._stored()
        return ends

    def close(self) -> None:
        """Close the connection."""
        self._store.close()

    async def _pages(self, durable: str, after: int, at_most: int) -> AsyncIterator[list[Recorded]]:
        """Yield the messages of a durable after a sequence, also acknowledged ones, in pages."""
        for filter_subject in durable_named(durable).filters:
            last = after
            while page := await self._bus.read(filter_subject, after=last, at_most=at_most):
                yield page
                last = page[-1].sequence

    async def _prepared(self, recorded: Recorded) -> Prepared | None:
        batch = cast("Batch", recorded.fact)
        try:
            start_ns = await self._evaluations.start_of(batch.evaluation)
            await self._evaluations.check_speaker(batch)
            return prepared_of(batch, start_ns)
        except BusError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever was sent: its saver buries it, or did)
            _log.debug("%s is not recollected: %s", recorded.subject, error)
            return None

    async def _save(self, batches: list[Prepared]) -> None:
        if not batches:
            return
        try:
            self.rows += await patiently((), self._store.save, batches)
        except RefusedRows:
            for single in batches if len(batches) > 1 else ():
                await self._save([single])

    async def _end(self, page: list[Recorded]) -> int:
        """Store the ends that the database lacks; return how many.

        Of an attempt that was purged from its streams the end alone would look like a run without
        rows, so it stays lost (`Holdings`) until a newer backup is restored. An attempt that is
        here as completed or failed may also have been given up.
        """
        facts = {
            run_key(fact.evaluation, fact.run, fact.attempt): (fact, recorded.envelope.id)
            for recorded in page
            for fact in (cast("RunEnded", recorded.fact),)
        }
        interruptions = {
            key: fact.cause for key, (fact, _) in facts.items() if isinstance(fact, RunInterrupted)
        }
        # A page has ends of one kind.
        unknown = await patiently(
            (), self._store.unknown_runs, list(facts), are_interruptions=bool(interruptions)
        )
        causes = {key: cause for key, cause in interruptions.items() if key not in unknown}
        ends = await patiently((), self._store.interrupt_runs, causes) if causes else 0
        for key in unknown:
            ends += await self._end_one(key, *facts[key])
        return ends

    async def _end_one(self, key: int, fact: RunEnded, cause: str) -> int:
        try:
            decisions = await self._evaluations.decisions(fact.evaluation)
            if decisions.plan is None or decisions.requested_ns is None:
                return 0
            if isinstance(fact, RunInterrupted):
                is_whole = not decisions.ended or await self._is_whole_up_to_its_end(key, fact)
            else:
                check_speaker(decisions, fact)
                is_whole = await self._is_whole(key, fact)
            if not is_whole:
                return 0
            row = run_row(fact, decisions.plan, decisions.requested_ns, cause)
            await patiently((), self._store.end_run, row)
        except DatabaseAway:
            raise
        except CollectorServiceError as error:
            place = {"evaluation": fact.evaluation, "run": fact.run}
            _log.warning("the end of %s is not recollected: %s", fact.run, error, extra=place)
            return 0
        return 1

    async def _is_whole(self, key: int, fact: RunCompleted | RunFailed) -> bool:
        """Tell whether all batches of an attempt are stored that ever were."""
        tally = fact.tally
        announced = (tally.trace_batches, tally.query_batches, tally.output_batches)
        stored = await patiently((), self._store.batches_of, key, announced)
        if stored == announced:
            return True
        counted = await self._counted_batches(fact, sum(announced))
        return bool(counted) and sum(stored) >= counted[-1]

    async def _is_whole_up_to_its_end(self, key: int, fact: RunInterrupted) -> bool:
        """Tell whether all batches are stored that were counted when an attempt was given up.

        Of one that was never counted nobody knows how many there were.
        """
        counted = await self._counted_batches(fact, 0)
        stored = await patiently((), self._store.batches_of, key, _ALL_BATCHES)
        return bool(counted) and sum(stored) >= counted[-1]

    async def _counted_batches(self, fact: RunEnded, announced: int) -> list[int]:
        """Return how many batches of an attempt were stored, each time when some were missing.

        Only times count at which this number of batches was `announced`.
        """
        return [
            entry.fact.stored_batches
            for entry in await self._bus.read(story_of(fact.evaluation))
            if isinstance(entry.fact, RunIncomplete)
            and (entry.fact.run, entry.fact.attempt) == (fact.run, fact.attempt)
            and entry.fact.announced_batches == announced
        ]
