"""Reads evaluations from the log and records decisions there (I/O).

Each decision is guarded: it is recorded only if no other decision came first. After such a conflict
the evaluation is read again. A broker of three answers from its own copy, which may lag behind.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Conflict
from mlscope.logs import cut_cause
from schemas.evaluation import EvaluationFailed
from schemas.message import Fact, derived_id
from schemas.subjects import decisions_of, request_of, story_of
from services.scheduler.errors import Undecided
from services.scheduler.evaluation.index import EvaluationIndex
from services.scheduler.evaluation.state import EvaluationState, fold

_log = logging.getLogger(__name__)
_MAX_TURNS = 50
_MOST_ENDED = 16
"""The ended evaluations whose states are remembered."""
_LAGS_S = (0.01, 0.05, 0.25, *(1.0,) * 5)
"""The pauses in which a broker whose copy lags behind is given time to catch up."""

Decider = Callable[[EvaluationState], Awaitable[Sequence[Fact]]]
"""Returns the decisions that follow from a state."""


class DecisionLog:
    """The one way in which decisions get into the log."""

    def __init__(self, bus: Bus, index: EvaluationIndex) -> None:
        """Fold facts that are read into `index`."""
        self._bus = bus
        self._index = index
        #: states of ended evaluations, each with the sequence up to which its story was read
        self._ended: OrderedDict[str, tuple[EvaluationState, int]] = OrderedDict()

    async def current(self, evaluation: str, decided: int = 0) -> EvaluationState:
        """Return an evaluation's state as of now.

        An open evaluation is read on from where the index stands, an ended one from where it was
        read last, any other one from its beginning.
        The state of an evaluation that nobody requested is empty. `decided` is the sequence of a
        decision that the log has: one that is not read yet is waited for, some seconds at most, and
        not at all where the log has decisions that cannot be read here. Raises BusError.
        """
        state = await self._read(evaluation)
        for pause_s in _LAGS_S:
            if state.decided >= decided or self.unread(evaluation):
                break
            await asyncio.sleep(pause_s)
            state = await self._read(evaluation)
        return state

    async def _read(self, evaluation: str) -> EvaluationState:
        indexed = self._index.open.get(evaluation)
        if indexed is not None:
            return await self._read_on(evaluation, indexed.sequence)
        state, after = self._ended.pop(evaluation, (EvaluationState(), 0))
        if not after and not await self._bus.read(request_of(evaluation), at_most=1):
            # Without a request nothing counts, however many facts an agent publishes about it.
            return state
        story = await self._bus.read(story_of(evaluation), after=after)
        state = fold(story, state)
        if state.is_known and not state.is_ended:
            return await self._read_on(evaluation, 0)
        if state.is_ended:
            # An agent may go on publishing facts about it, each of which is looked at.
            self._ended[evaluation] = state, story[-1].sequence if story else after
            if len(self._ended) > _MOST_ENDED:
                self._ended.popitem(last=False)
        return state

    def unread(self, evaluation: str) -> int:
        """Return how many facts of an `evaluation` could not be read here."""
        return self._bus.unread(evaluation)

    async def _read_on(self, evaluation: str, after: int) -> EvaluationState:
        state = self._index.open.get(evaluation, EvaluationState())
        for recorded in await self._bus.read(story_of(evaluation), after=after):
            state = self._index.take(recorded) or self._index.open.get(evaluation, state)
        return state

    async def settle(self, evaluation: str, decider: Decider) -> EvaluationState:
        """Record what `decider` returns until it returns nothing more; return the state then.

        A decision that cannot be read here, of a newer scheduler or damaged, is passed over: the
        guard then stands at the position the log gave before the state was read, so that any later
        decision is still noticed. Raises Undecided, BusError.
        """
        position = 0
        for _ in range(_MAX_TURNS):
            state = await self.current(evaluation, position)
            facts = await decider(state)
            if not facts:
                return state
            position = await self.record(state, facts, position)
        raise Undecided(evaluation)

    async def note(self, fact: Fact, message_id: str) -> None:
        """Record a `fact` that decides nothing, once for each `message_id`. Raises BusError."""
        await self._bus.publish(fact, id=message_id)

    async def record(self, state: EvaluationState, facts: Sequence[Fact], position: int = 0) -> int:
        """Record `facts`, decisions on a `state`, unless another decision comes first.

        `position` is the sequence of the last decision that was known before `state` was read.
        Return that of the last decision now, as recorded or as a conflict reports it; 0 if it
        reports none.
        """
        evaluation = str(getattr(facts[0], "evaluation", ""))
        last = max(state.decided, position)
        for fact in facts:
            try:
                last = await self._bus.publish(
                    fact,
                    id=decision_id(fact),
                    cause=state.last_id,
                    expected=(decisions_of(evaluation), last),
                )
            except Conflict as conflict:
                return conflict.actual
            if isinstance(fact, EvaluationFailed):
                extra = {"evaluation": evaluation, "cause": cut_cause(fact.cause)}
                _log.warning("an evaluation failed", extra=extra)
        return last


def decision_id(fact: Fact) -> str:
    """Return a decision's id: the same from every scheduler that comes to it.

    A decision is unique for each evaluation, kind of fact, run and attempt; an interruption also
    for whether it is final, and a plan for its revision.
    """
    parts = [str(getattr(fact, name, "")) for name in ("run", "attempt", "final")]
    if revision := getattr(fact, "revision", 0):
        parts.append(str(revision))
    return derived_id(str(getattr(fact, "evaluation", "")), fact.schema_name(), "/".join(parts))
