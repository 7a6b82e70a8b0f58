"""Where a session's model is called: with how many threads, and on which cores (I/O: /proc)."""

from dataclasses import dataclass

from services.agent.machine.cores import ANYWHERE, cores_set_aside
from services.agent.machine.noise import usable_core_numbers
from services.agent.machine.quotas import usable_cores
from services.agent.predictors import Opened


@dataclass(frozen=True, slots=True)
class Predicting:
    """The threads of a framework that computes on the host's cores, and the caller's own cores."""

    #: 0: the model computes on a device of its own
    threads: int
    #: that the thread which calls the model is kept on, in every run of the session
    cores: frozenset[int] = ANYWHERE

    @classmethod
    def of(cls, opened: Opened) -> "Predicting":
        """Return where a model that is `opened` is called.

        A device is fed from one core, whether samples are prepared ahead or streamed: where cores
        differ, a thread that moves in one of them only would make the two incomparable.
        """
        if opened.device == "cpu":
            return cls(opened.threads)
        return cls(0, cores_set_aside(usable_core_numbers(), usable_cores()))
