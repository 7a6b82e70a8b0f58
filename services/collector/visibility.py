"""I/O: notes whether everybody may see the rows of an attempt: views for dashboards show only such.

An attempt counts as hidden until its evaluation's request was read. The log has the request; a
database that is older than the notes, or was filled from a backup, is gone through once.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import cast

from mlscope.bus.bus import Bus
from mlscope.bus.errors import BusError
from mlscope.bus.records import Recorded
from schemas.batch import Batch
from schemas.evaluation import EvaluationRequested
from schemas.subjects import request_of
from schemas.values.identity import run_key
from services.collector.errors import CollectorServiceError
from services.collector.runs import RunEnded
from services.collector.saving import patiently
from services.collector.store import Store

_log = logging.getLogger(__name__)
_PAUSE_S = 1.0
_PAGE_RUNS = 500
_MOST_JUDGED = 1_300
"""How many attempts are remembered: to note one twice changes nothing."""


class Visibility:
    """Notes in the database which attempts everybody may see."""

    def __init__(self, bus: Bus, address: str) -> None:
        """Read requests on `bus`, and open a connection to the database at `address`."""
        self._bus = bus
        self._store = Store(address)
        #: the evaluations of attempts that have rows and no note yet, by run key
        self._noted: dict[int, str] = {}
        self._judged: OrderedDict[int, None] = OrderedDict()
        self._is_look_due = False
        self._woken = asyncio.Event()

    def note(self, stored: Sequence[Recorded]) -> None:
        """Take batches and ends of attempts that were `stored` as rows."""
        for recorded in stored:
            fact = cast("Batch | RunEnded", recorded.fact)
            key = run_key(fact.evaluation, fact.run, fact.attempt)
            if key not in self._judged:
                self._noted[key] = fact.evaluation
                self._woken.set()

    def look(self) -> None:
        """Have the database gone through for attempts without a note."""
        self._is_look_due = True
        self._woken.set()

    async def watch(self) -> None:
        """Note what was stored, and what a look finds, without end."""
        while True:
            is_looking = False
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._judge(dict(self._noted))
                if self._is_look_due:
                    self._is_look_due = False  # another may fall due meanwhile
                    is_looking = True
                    await self.judge_all()
                    is_looking = False
            except (BusError, CollectorServiceError) as error:
                self._is_look_due |= is_looking
                _log.warning("rows stay hidden from dashboards for now: %s", error)
                self._woken.set()
            await asyncio.sleep(_PAUSE_S)

    async def judge_all(self) -> None:
        """Note all attempts that ended and have no note. Raises BusError, CollectorServiceError."""
        after = -1
        while page := await patiently((), self._store.unjudged_runs, after, _PAGE_RUNS):
            after = max(page)
            await self._judge(page)

    def close(self) -> None:
        """Close the connection."""
        self._store.close()

    async def _judge(self, runs: Mapping[int, str]) -> None:
        """Note attempts, given their evaluations by run key; those of unknown ones stay hidden."""
        if not runs:
            return
        verdicts = {
            evaluation: await self._is_visible(evaluation) for evaluation in {*runs.values()}
        }
        notes = {
            key: (evaluation, verdict)
            for key, evaluation in runs.items()
            if (verdict := verdicts[evaluation]) is not None
        }
        if notes:
            await patiently((), self._store.note_visibility, notes)
        self._judged.update(dict.fromkeys(notes))
        while len(self._judged) > _MOST_JUDGED:
            self._judged.popitem(last=False)
        for key in runs:
            self._noted.pop(key, None)

    async def _is_visible(self, evaluation: str) -> bool | None:
        """Tell whether everybody may see an evaluation; None without a readable request.

        Raises BusError.
        """
        recorded = await self._bus.read(request_of(evaluation))
        requests = [
            entry.fact.request for entry in recorded if isinstance(entry.fact, EvaluationRequested)
        ]
        if not requests or self._bus.unread(evaluation):
            return None
        return all(request.visibility == "cluster" for request in requests)
