"""Reads stories and records decisions over the bus (I/O): guarded, read again after a conflict."""

from collections.abc import Awaitable, Callable, Sequence

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Conflict
from schemas.message import Fact, derived_id
from schemas.subjects import decisions_of, story_of
from services.scheduler.board import Board
from services.scheduler.errors import Undecided
from services.scheduler.state import EvaluationState, fold

_MOST_TURNS = 50

Decider = Callable[[EvaluationState], Awaitable[Sequence[Fact]]]


class Recorder:
    """The one way decisions get into the log."""

    def __init__(self, bus: Bus, board: Board) -> None:
        """Keep `board` up with what is read."""
        self._bus = bus
        self._board = board

    async def current(self, evaluation: str) -> EvaluationState:
        """Return an evaluation's state as of now, read on from where the board stands.

        An evaluation the board has not open is read whole; its state is empty if nobody asked
        for it. Raises BusError.
        """
        known = self._board.open.get(evaluation)
        if known is None:
            whole = fold(await self._bus.read(story_of(evaluation)))
            if whole.is_known and not whole.is_ended:
                return await self._caught_up(evaluation, 0)
            return whole
        return await self._caught_up(evaluation, known.sequence)

    async def _caught_up(self, evaluation: str, after: int) -> EvaluationState:
        state = self._board.open.get(evaluation, EvaluationState())
        for recorded in await self._bus.read(story_of(evaluation), after=after):
            state = self._board.take(recorded) or self._board.open.get(evaluation, state)
        return state

    async def settle(self, evaluation: str, decider: Decider) -> EvaluationState:
        """Record what follows, until nothing more does, and return the state then.

        A decision nobody here can read (a newer scheduler's, or one that was damaged) is passed
        over: the guard then stands at where the log was found to be before the state was read,
        so that any decision since is still noticed. Raises Undecided, BusError.
        """
        found = 0
        for _ in range(_MOST_TURNS):
            state = await self.current(evaluation)
            facts = await decider(state)
            if not facts:
                return state
            found = await self.record(state, facts, found)
        raise Undecided(evaluation)

    async def record(self, state: EvaluationState, facts: Sequence[Fact], found: int = 0) -> int:
        """Record decisions one after the other, unless somebody else comes first.

        `found` is where decisions were known to stand before `state` was read. Return where they
        stand: as the last one recorded, or as a conflict told; 0 where it did not.
        """
        evaluation = str(getattr(facts[0], "evaluation", ""))
        last = max(state.decided, found)
        for fact in facts:
            try:
                last = await self._bus.publish(
                    fact,
                    id=decision_id(fact),
                    cause=state.last_id,
                    expected=(decisions_of(evaluation), last),
                )
            except Conflict as conflict:
                return conflict.found
        return last


def decision_id(fact: Fact) -> str:
    """Return a decision's id: the same from every scheduler that comes to it.

    An evaluation is decided upon once for each fact, run and attempt; an interruption, once as
    open to another attempt and once as final.
    """
    parts = [str(getattr(fact, name, "")) for name in ("run", "attempt", "final")]
    return derived_id(str(getattr(fact, "evaluation", "")), fact.schema_name(), "/".join(parts))
