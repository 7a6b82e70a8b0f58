"""How long ago this scheduler saw the facts of an evaluation. Mutable, without I/O.

Facts are stamped by the wall clocks of other processes and machines, and any of these may be set.
So no deadline is the difference of two stamps: it runs from when this scheduler first decided on
the fact, by its own steady clock. A scheduler that starts anew waits anew: later, never falsely.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from schemas.evaluation import EvaluationPostponed, RunStarted
from schemas.message import Fact
from services.scheduler.evaluation.runs import Run
from services.scheduler.evaluation.state import EvaluationState


@dataclass(slots=True)
class _Observed:
    """The steady time at which each stamp of an evaluation was seen, and its newest state so."""

    at_ns: dict[int, int] = field(default_factory=dict)
    state: EvaluationState | None = None
    in_local_time: EvaluationState | None = None


class Patience:
    """The states of evaluations with the times of a steady clock in place of the facts' stamps."""

    def __init__(self) -> None:
        """Begin without any evaluation."""
        self._seen: dict[str, _Observed] = {}

    def in_local_time(self, state: EvaluationState, now_ns: int) -> EvaluationState:
        """Return `state` with each stamp replaced by the time at which it was first seen here.

        `now_ns` is the steady clock's. Stamps that are 0 (not yet) stay so.
        """
        observed = self._seen.setdefault(state.evaluation, _Observed())
        if observed.state is state and observed.in_local_time is not None:
            return observed.in_local_time

        def at(stamp_ns: int) -> int:
            return stamp_ns and observed.at_ns.setdefault(stamp_ns, now_ns)

        def run_in_local_time(run: Run) -> Run:
            return replace(
                run,
                started_ns=at(run.started_ns),
                since_ns=at(run.since_ns),
                issued_ns=at(run.issued_ns),
            )

        observed.state = state
        observed.in_local_time = replace(
            state,
            requested_ns=at(state.requested_ns),
            planned_ns=at(state.planned_ns),
            measured_ns=at(state.measured_ns),
            runs={name: run_in_local_time(run) for name, run in state.runs.items()},
        )
        return observed.in_local_time

    def forget_all_but(self, evaluations: Iterable[str]) -> None:
        """Forget every evaluation that is not among `evaluations`."""
        remembered = set(evaluations)
        for name in [name for name in self._seen if name not in remembered]:
            del self._seen[name]


def in_wall_time(facts: Sequence[Fact], ahead_ns: int) -> list[Fact]:
    """Return decisions with times for people: the wall clock is `ahead_ns` ahead of the steady one.

    Nothing is decided by these times; they are shown.
    """

    def in_wall_clock(fact: Fact) -> Fact:
        match fact:
            case RunStarted():
                return fact.model_copy(update={"started_ns": fact.started_ns + ahead_ns})
            case EvaluationPostponed():
                return fact.model_copy(update={"until_ns": fact.until_ns + ahead_ns})
        return fact

    return cast("list[Fact]", [in_wall_clock(fact) for fact in facts])
