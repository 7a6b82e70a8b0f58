"""Why a launch-bound call takes longer while samples are streamed: its time, taken apart.

`python -m benchmarks.launch_bound [--rounds 5] [--only NAME …] [--keep]`, on a machine with a GPU.

Each round makes the same calls, one at a time, in five scenes: `alone`, one behind the other;
`paused`, alone with the pause between two calls of the streamed run; `spun`, alone with as long a
pause in which the thread keeps its core busy; `written`, alone behind a pause in which another
process writes the batch; and `prepared`, those of a streamed run. Of each call are printed the wall
time, the time on a core (the thread's CPU time), the time it waited for a core (the kernel's
schedstat), and what is left: the time in which it slept, for the interpreter or for the device;
then, by events on the device, copying the batch in and computing.
"""

import argparse
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.feeding_cases import CASES, Case
from benchmarks.feeding_gpu import STREAMED, measured, order_of
from benchmarks.host_device import call_ms
from benchmarks.survey.measuring import ALLOWED
from benchmarks.timing import keeping
from schemas.plan import WorkOrder
from schemas.request import Blocks
from services.agent.host.offline import SHIPPED_MANIFESTS
from services.agent.link.messages import PerformOrder
from services.agent.machine.cores import kept_on
from services.agent.machine.roofline.ceilings import NO_ROOF
from services.agent.predictors import Predictor, Tensors
from services.agent.worker.session import Session
from services.agent.worker.session_opener import SessionOpener

NAMES = ("resnet50 float32 1", "resnet50 bfloat16 32", "convnext-tiny 1")
CALLS = 150
ALONE, PAUSED, SPUN, WRITTEN, PREPARED = (
    "alone",
    "paused",
    "spun",
    "written",
    "prepared",
)
COLUMNS = ("wall", "on a core", "for one", "neither", "copy in", "compute")


class Watched:
    """A model whose calls do not overlap, each with its time taken apart."""

    def __init__(self, inner: Predictor) -> None:
        self.opened, self.close = inner.opened, inner.close
        self._predict_parts: Any = getattr(inner, "predict_parts", None)
        self._predict = inner.predict
        #: of each call: began, ended, on a core, waiting for one, copying in, computing (ns)
        self.rows: list[tuple[int, ...]] = []

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs of a batch."""
        schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        waited_ns = int(schedule.read_text().split()[1])
        began_ns, began_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        if self._predict_parts is None:
            outputs, parts_ns = self._predict(inputs), [0, 0]
        else:
            outputs, parts = self._predict_parts(inputs)
            parts_ns = [part.duration_ns for part in parts]
        cpu_ns, ended_ns = time.thread_time_ns() - began_cpu_ns, time.monotonic_ns()
        waited_ns = int(schedule.read_text().split()[1]) - waited_ns
        self.rows.append((began_ns, ended_ns, cpu_ns, waited_ns, *parts_ns[:2]))
        return outputs

    def take_medians(self) -> tuple[list[float], float]:
        """Return the medians of `COLUMNS` (ms), and of the pause between calls (s); forget all."""
        rows, self.rows = np.array(self.rows[10:]), []
        wall, cpu, waited = rows[:, 1] - rows[:, 0], rows[:, 2], rows[:, 3]
        parts = (wall, cpu, waited, wall - cpu - waited, rows[:, 4], rows[:, 5])
        pauses = rows[1:, 0] - rows[:-1, 1]
        return [float(np.median(part)) / 1e6 for part in parts], float(np.median(pauses)) / 1e9


def spin(pause_s: float) -> None:
    """Keep the core busy for a while."""
    until_s = time.perf_counter() + pause_s
    while time.perf_counter() < until_s:
        pass


def in_a_row(
    session: Session, watched: Watched, pause_s: float, wait: Callable[[float], None] = time.sleep
) -> list[float]:
    """Return the medians of calls, on the cores of a streamed run's; `wait` a pause in between."""
    with kept_on(session.supply.predicting_cores):
        for number in range(CALLS):
            if pause_s:
                wait(pause_s)
            watched.predict(session.slots[number % len(session.slots)].inputs)
    return watched.take_medians()[0]


@contextmanager
def writer(arrays: Sequence[Any]) -> Iterator[Callable[[float], None]]:
    """Yield what has another process write one of some shared arrays after the other."""
    (question_end, asking), (answer_end, telling) = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        os.close(asking)  # else it would never see the end
        contents = [np.array(array) for array in arrays]
        for number in itertools.count():
            if not os.read(question_end, 1):
                os._exit(0)
            arrays[number % len(arrays)][:] = contents[number % len(arrays)]
            os.write(telling, b"1")

    def write(_: float) -> None:
        os.write(asking, b"1")
        os.read(answer_end, 1)

    try:
        yield write
    finally:
        for descriptor in (question_end, asking, answer_end, telling):
            os.close(descriptor)
        os.waitpid(pid, 0)


def report(case: Case, rounds: int) -> None:
    """Measure a case and print its scenes."""
    subject = case.subject().model_copy(update={"blocks": Blocks(least=1, most=1)})
    with TemporaryDirectory(prefix="mlscope-") as folder:
        order = order_of(case, subject, 0.005)
        opener = SessionOpener(
            PerformOrder(order, SHIPPED_MANIFESTS, {}, ALLOWED, NO_ROOF), Path(folder)
        )
        session = opener.open()
        try:
            scenes, pause_s = turns(session, streamed_only(order), opener, rounds)
        finally:
            session.close()
    print(f"{case.name}: pause between streamed calls {pause_s * 1e3:.2f} ms")
    for name, rows in scenes.items():
        ratios = [row[0] / alone[0] for row, alone in zip(rows, scenes[ALONE], strict=True)]
        cells = " ".join(f"{median(column):9.3f}" for column in zip(*rows, strict=True))
        print(f"  {name:10}{cells}   {median(ratios):.3f} ({min(ratios):.3f} .. {max(ratios):.3f})")


def turns(
    session: Session, order: WorkOrder, opener: SessionOpener, rounds: int
) -> tuple[dict[str, list[list[float]]], float]:
    """Return the rows of each scene by round, and the last pause (s)."""
    predictor: Any = session.predictor
    call_ms(lambda number: predictor.predict(session.slots[number % 3].inputs), 30)
    watched = Watched(predictor)
    beside = replace(session, predictor=watched)
    scenes: dict[str, list[list[float]]] = {
        name: [] for name in (ALONE, PAUSED, SPUN, WRITTEN, PREPARED)
    }
    pause_s = 0.0

    def streamed() -> list[float]:
        nonlocal pause_s
        measured(beside, order, lambda: (0.0, 0.0), opener)
        row, pause_s = watched.take_medians()
        return row

    def written() -> list[float]:
        with writer([slot.arrays[0] for slot in session.slots]) as write:
            return in_a_row(session, watched, pause_s, write)

    steps: Sequence[tuple[str, Callable[[], list[float]]]] = (
        (ALONE, lambda: in_a_row(session, watched, 0.0)),
        (PREPARED, streamed),
        (PAUSED, lambda: in_a_row(session, watched, pause_s)),
        (WRITTEN, written),
        (SPUN, lambda: in_a_row(session, watched, pause_s, spin)),
    )
    for turn in range(rounds + 1):
        rows = [(name, step()) for name, step in steps]
        for name, row in rows if turn else ():  # the first turn warms
            scenes[name].append(row)
    return scenes, pause_s


def streamed_only(order: WorkOrder) -> WorkOrder:
    """Return an order of the streamed run alone, with as many calls as the others."""
    (plan,) = (plan for plan in order.session.runs if plan.run == STREAMED)
    parameters = {**plan.parameters, "queries": CALLS}
    plan = plan.model_copy(update={"parameters": parameters, "queries": CALLS})
    session = order.session.model_copy(update={"runs": (plan,)})
    return order.model_copy(update={"session": session, "runs": (STREAMED,)})


def main() -> int:
    """Print the scenes of each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=NAMES)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    with keeping("launch_bound", is_wanted=options.keep):
        print(f"ms a call, medians of {options.rounds} rounds of {CALLS} calls; last: wall / alone")
        print(" " * 12 + " ".join(f"{name:>9}" for name in COLUMNS))
        for case in CASES:
            if case.name in options.only:
                report(case, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
