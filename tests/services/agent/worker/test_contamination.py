"""What preparation takes from a model that computes: CPU time of other threads of its process.

CPU time, not the clock's: other processes of the machine may take the cores, and change nothing.
"""

import time
from pathlib import Path
from statistics import median

from schemas.run import RunCompleted
from services.agent.predictors import Opened, Tensors
from services.agent.worker.session import Session
from tests.services.agent.builders import a_picture_subject, a_run
from tests.services.agent.worker.preparation.pictures import picture_files
from tests.services.agent.worker.test_streamed import opened

CALL_NS = 50_000_000
"""Preparing a batch of two photographs takes a fifth of it, and finishing it a hundredth."""
QUERIES = 10
MOST_CONTAMINATION = 0.05


class Spinning:
    """A model that holds the interpreter for `CALL_NS` of its thread's CPU time in each call."""

    def __init__(self, session: Session) -> None:
        """Take the place of a session's model, and answer each batch as that answers the first."""
        self.opened: Opened = session.predictor.opened
        outputs = session.predictor.predict(session.slots[0].inputs)
        self._outputs = {name: array.copy() for name, array in outputs.items()}
        #: of each call: the CPU time of other threads during it, over that of its own
        self.shares: list[float] = []

    def predict(self, inputs: Tensors) -> Tensors:  # noqa: ARG002
        """Spin, and count the CPU time of this thread and of the others of the process."""
        process_ns, began_ns = time.process_time_ns(), time.thread_time_ns()
        while (own_ns := time.thread_time_ns() - began_ns) < CALL_NS:
            pass
        others_ns = time.process_time_ns() - process_ns - own_ns
        self.shares.append(others_ns / own_ns)
        return self._outputs

    def close(self) -> None:
        """Close nothing."""


def contamination(folder: Path, processes: int) -> float:
    """Return that of a streamed run, whose samples at most so many `processes` prepare."""
    photographs = {name: body for name, body in picture_files().items() if name.startswith("good")}
    run = a_run(scenario="batched", queries=QUERIES, concurrency=4, samples="streamed")
    subject = a_picture_subject(folder, photographs)
    with opened(folder, subject, run, processes=processes, model=Spinning) as (session, group, _):
        (outcome,) = group.perform()
    assert isinstance(outcome, RunCompleted), outcome
    assert outcome.conditions.prepare_processes == processes, outcome.caveats
    assert outcome.tally.failed_queries == 0
    model = session.predictor
    assert isinstance(model, Spinning)
    assert len(model.shares) == QUERIES
    return median(model.shares)


def test_preparation_takes_no_time_of_the_process_that_predicts(tmp_path: Path) -> None:
    assert contamination(tmp_path, 1) <= MOST_CONTAMINATION


def test_preparation_in_threads_is_seen_to_take_it(tmp_path: Path) -> None:
    assert contamination(tmp_path, 0) > MOST_CONTAMINATION
