"""Where a session's model is called: with how many threads, and on which cores (I/O: /proc)."""

from dataclasses import dataclass

from services.agent.machine.cores import ANYWHERE, cores_set_aside, kept_on
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

        A GPU is fed from one core, whether samples are prepared ahead or streamed: where cores
        differ, a thread that moves in one of them only would make the two incomparable.
        """
        if opened.device != "gpu":
            return cls(opened.threads if opened.device == "cpu" else 0)
        cores = cores_set_aside(usable_core_numbers(), usable_cores())
        with kept_on(cores) as are_kept:
            return cls(0, cores if are_kept else ANYWHERE)
