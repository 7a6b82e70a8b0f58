"""I/O: what the log says of evaluations, what batches need of it remembered."""

from collections import OrderedDict
from dataclasses import replace

from mlscope.bus.bus import Bus
from schemas.batch import Batch
from schemas.subjects import decisions_of
from services.collector.errors import UnknownEvaluation
from services.collector.runs import Known, check_speaker, known_of

_REMEMBERED = 4096


class Evaluations:
    """Reads evaluations' decisions."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._recent: OrderedDict[str, Known] = OrderedDict()

    async def known(self, evaluation: str) -> Known:
        """Return what the log says now. Raises what the bus raises."""
        recorded = await self._bus.read(decisions_of(evaluation))
        return known_of(each.fact for each in recorded)

    async def start_of(self, evaluation: str) -> int:
        """Return when an evaluation was requested, epoch ns: `ts` of its rows.

        Raises UnknownEvaluation, and what the bus raises.
        """
        known = self._recent.get(evaluation) or await self._remember(evaluation)
        self._recent.move_to_end(evaluation)
        assert known.requested_ns is not None, "only what was requested is remembered"
        return known.requested_ns

    async def check_speaker(self, batch: Batch) -> None:
        """Check that a batch comes from whom its attempt was started on.

        Raises UnknownEvaluation, UnstartedAttempt, ForeignFact, and what the bus raises.
        """
        known = self._recent.get(batch.evaluation)
        if known is None or (batch.run, batch.attempt) not in known.agents:
            known = await self._remember(batch.evaluation)
        check_speaker(known, batch)

    async def _remember(self, evaluation: str) -> Known:
        """Read what the log says now and keep it, but for the plan, which is large."""
        known = replace(await self.known(evaluation), plan=None)
        if known.requested_ns is None:
            raise UnknownEvaluation(evaluation)
        self._recent[evaluation] = known
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return known
