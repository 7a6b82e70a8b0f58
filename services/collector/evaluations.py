"""I/O: reads the decisions about evaluations from the log, and caches what batches need."""

from collections import OrderedDict
from dataclasses import replace

from mlscope.bus.bus import Bus
from schemas.batch import Batch
from schemas.subjects import decisions_of
from services.collector.errors import UnknownEvaluation
from services.collector.runs import EvaluationDecisions, check_speaker, fold_decisions

_REMEMBERED = 256
_READ_ON = 16
"""The evaluations that are read on from their last decision; a plan may take megabytes."""


class Evaluations:
    """Reads the decisions about evaluations."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._recent: OrderedDict[str, EvaluationDecisions] = OrderedDict()
        #: the decisions about each of the newest evaluations, and the sequence of the last one
        self._folded: OrderedDict[str, tuple[EvaluationDecisions, int]] = OrderedDict()

    async def decisions(self, evaluation: str) -> EvaluationDecisions:
        """Return the decisions in the log now. Raises the errors of the bus."""
        decisions, last = self._folded.get(evaluation, (EvaluationDecisions(), 0))
        if recorded := await self._bus.read(decisions_of(evaluation), after=last):
            decisions = fold_decisions((entry.fact for entry in recorded), decisions)
            last = recorded[-1].sequence
        if last:
            self._folded[evaluation] = decisions, last
            self._folded.move_to_end(evaluation)
        if len(self._folded) > _READ_ON:
            self._folded.popitem(last=False)
        return decisions

    async def start_of(self, evaluation: str) -> int:
        """Return the time at which an evaluation was requested, in epoch ns: `ts` of its rows.

        Raises UnknownEvaluation, and the errors of the bus.
        """
        decisions = self._recent.get(evaluation) or await self._remember(evaluation)
        self._recent.move_to_end(evaluation)
        assert decisions.requested_ns is not None, "only what was requested is remembered"
        return decisions.requested_ns

    async def check_speaker(self, batch: Batch) -> None:
        """Check that a batch comes from the agent that runs its attempt.

        Raises UnknownEvaluation, UnstartedAttempt, ForeignFact, and the errors of the bus.
        """
        decisions = self._recent.get(batch.evaluation)
        if decisions is None or (batch.run, batch.attempt) not in decisions.agents:
            decisions = await self._remember(batch.evaluation)
        check_speaker(decisions, batch)

    async def _remember(self, evaluation: str) -> EvaluationDecisions:
        """Read the decisions in the log and cache them without the plan, which is large."""
        decisions = replace(await self.decisions(evaluation), plan=None)
        if decisions.requested_ns is None:
            raise UnknownEvaluation(evaluation)
        self._recent[evaluation] = decisions
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return decisions
