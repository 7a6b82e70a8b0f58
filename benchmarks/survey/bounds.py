"""The time that a step of a survey may take: handed to each of its runs, and looked at between."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.message import Fact
from schemas.plan import OfflinePlan
from schemas.run import RunCompleted, RunFailed


class TimeIsUp(RuntimeError):
    """The time was up before a step was through: it is to be done again."""


@dataclass(frozen=True, slots=True)
class Bound:
    """When a step must have ended, in seconds of `time.monotonic`."""

    until: float = math.inf

    @classmethod
    def after(cls, seconds: float) -> "Bound":
        """Return the bound that comes so much later."""
        return cls(time.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """What is left of it, 0 or more."""
        return max(0.0, self.until - time.monotonic())

    def check(self, _: Fact | None = None) -> None:
        """Raise TimeIsUp when it is; as what an offline plan tells facts to, it ends that."""
        if not self.left_s:
            raise TimeIsUp

    def on(self, plan: OfflinePlan) -> OfflinePlan:
        """Return a plan none of whose runs takes longer than what is left. Raises TimeIsUp."""
        self.check()
        sessions = tuple(
            session.model_copy(
                update={
                    "runs": tuple(
                        run.model_copy(update={"timeout_s": min(run.timeout_s, self.left_s)})
                        for run in session.runs
                    )
                }
            )
            for session in plan.plan.sessions
        )
        return plan.model_copy(update={"plan": plan.plan.model_copy(update={"sessions": sessions})})

    def judge(self, outcomes: Sequence[RunCompleted | RunFailed]) -> None:
        """Raise TimeIsUp where it is, and a run failed: it may have been cut off."""
        if any(isinstance(outcome, RunFailed) for outcome in outcomes):
            self.check()


NO_BOUND = Bound()
"""A step that may take as long as it does."""
