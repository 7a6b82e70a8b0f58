"""I/O: stores how attempts ended, and announces them once all their rows are stored.

The end of an attempt is acknowledged once it is a row. Completeness is polled from the database,
so a starting collector announces attempts that another collector left unannounced.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import cast

from mlscope.bus.bus import Bus, Delivery
from mlscope.bus.errors import BusError
from mlscope.bus.records import Recorded
from schemas.evaluation import RunInterrupted
from schemas.message import derived_id
from schemas.run import RunIncomplete, RunRecorded
from services.collector.completeness import Progress, WaitingAttempt, decide
from services.collector.errors import (
    CollectorServiceError,
    ForeignFact,
    RefusedRows,
    UnknownEvaluation,
    UnplannedRun,
    UnstartedAttempt,
)
from services.collector.evaluations import Evaluations
from services.collector.runs import RunEnded, check_speaker, run_row
from services.collector.saving import TRIES_FOR_UNKNOWN, patiently
from services.collector.store import Store

_log = logging.getLogger(__name__)
_POLL_S = 1.0
_MIN_POLL_S = 0.05
_PATIENCE_BEHIND = 10


class AttemptRecorder:
    """Stores ended attempts, and announces complete ones."""

    def __init__(
        self,
        bus: Bus,
        address: str,
        evaluations: Evaluations,
        ended: Callable[[Sequence[Recorded]], None] = lambda _: None,
    ) -> None:
        """Open two connections to the database at `address`, for storing and for polling.

        Facts are read and published on `bus`; `evaluations` reads the decisions. `ended` is called
        with each end that was stored.
        """
        self._ended = ended
        self._bus = bus
        self._ends = Store(address)
        self._store = Store(address)
        self._evaluations = evaluations
        self._turn = asyncio.Lock()
        self._stored = asyncio.Event()
        self._progress = Progress()
        self.waiting = 0

    def note_stored_rows(self) -> None:
        """Note that rows were stored, so that an attempt may be complete now."""
        self._stored.set()

    async def record(self) -> None:
        """Store every attempt that ends, without end."""
        async for deliveries in self._bus.deliveries("recorder", batch=1):
            for delivery in deliveries:
                # If the acknowledgement fails, the bus delivers the fact again.
                with contextlib.suppress(BusError):
                    await self._record(delivery)
            self.note_stored_rows()

    def close(self) -> None:
        """Close the connections."""
        self._ends.close()
        self._store.close()

    async def announce(self, deadline_s: float, was_behind: Callable[[float], bool]) -> None:
        """Announce attempts that are complete, or incomplete after `deadline_s`, without end.

        The deadline is longer while the savers `was_behind`, because batches may then be queued.
        """
        while True:
            await asyncio.sleep(_MIN_POLL_S)
            try:
                async with asyncio.timeout(_POLL_S):
                    await self._stored.wait()
            except TimeoutError:
                pass
            self._stored.clear()
            async with self._turn:
                waiting = await patiently((), self._store.waiting)
            self.waiting = len(waiting)
            waited_s = self._progress.waited_s(waiting, time.monotonic())
            for attempt in waiting:
                patience = _PATIENCE_BEHIND if was_behind(deadline_s) else 1
                fact = decide(attempt, waited_s[attempt.run_key], deadline_s * patience)
                if fact is not None:
                    await self._announce(attempt, fact)

    async def _record(self, delivery: Delivery) -> None:
        recorded = delivery.recorded
        fact = cast("RunEnded", recorded.fact)
        place = {"evaluation": fact.evaluation, "run": fact.run}
        try:
            decisions = await self._evaluations.decisions(fact.evaluation)
            if decisions.plan is None or decisions.requested_ns is None:
                raise UnknownEvaluation(fact.evaluation)
            if not isinstance(fact, RunInterrupted):
                check_speaker(decisions, fact)
            row = run_row(fact, decisions.plan, decisions.requested_ns, recorded.envelope.id)
            await patiently([delivery], self._ends.end_run, row)
        except (UnplannedRun, RefusedRows, ForeignFact) as error:
            _log.error("attempt not recorded, buried: %s", error, extra=place)
            await delivery.bury(str(error))
        except (UnknownEvaluation, UnstartedAttempt) as error:
            # Its decisions come before it in the log, and so at most from a broker's older copy.
            # Ends of evaluations that nobody requested must not wait in the way of the others.
            if delivery.tries >= TRIES_FOR_UNKNOWN:
                await delivery.bury(str(error))
            else:
                await delivery.retry(1.0)
        except BusError as error:
            _log.warning("attempt not recorded yet: %s", error, extra=place)
            await delivery.retry()
        except Exception as error:  # noqa: BLE001 (whatever an agent sends, the loop goes on)
            _log.exception("attempt not recorded, try %d", delivery.tries, extra=place)
            if delivery.tries > 1:
                await delivery.bury(f"{type(error).__name__}: {error}")
            else:
                await delivery.retry(1.0)
        else:
            self._ended([recorded])
            await delivery.ack()

    async def _announce(self, waiting: WaitingAttempt, fact: RunRecorded | RunIncomplete) -> None:
        state = fact.happened
        try:
            if waiting.is_interrupted:
                # The tally of its agent, which would count the failed queries, is missing.
                async with self._turn:
                    failed = await patiently((), self._store.failed_queries, waiting.run_key)
                fact, state = fact.model_copy(update={"failed_queries": failed}), "interrupted"
            name = fact.schema_name()
            await self._bus.publish(fact, id=derived_id(waiting.cause, name), cause=waiting.cause)
            async with self._turn:
                settled = (waiting.run_key, state, waiting.batches)
                await patiently((), self._store.settle, *settled)
        except (BusError, CollectorServiceError) as error:
            place = {"evaluation": waiting.evaluation, "run": waiting.run}
            _log.warning("not announced yet: %s", error, extra=place)
