"""How many preparing processes feed a GPU best: throughput streamed, by their number.

`python -m benchmarks.process_counts [--around 2] [--only NAME] [--keep]`, on a
machine with a GPU. One session for each number, from so many fewer than the agent would take to so
many more, and the agent's own number again at the end. Printed are samples a second of preparation
alone, with a model that answers at once, and of the model with it, medians of three blocks.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from unittest import mock

from benchmarks.feeding_cases import CASES, Case
from benchmarks.feeding_gpu import STREAMED, Instant, measured, order_of
from benchmarks.survey.measuring import ALLOWED
from benchmarks.timing import keeping
from schemas.request import Blocks
from services.agent.host.offline import SHIPPED_MANIFESTS
from services.agent.link.messages import PerformOrder
from services.agent.machine.roofline.ceilings import NO_ROOF
from services.agent.predictors.options import usable_cores
from services.agent.worker.preparation import session_pool
from services.agent.worker.preparation.shares import processes_for
from services.agent.worker.session_opener import SessionOpener

BLOCKS = 3


def rates(case: Case, processes: int) -> tuple[float, float]:
    """Return samples a second that so many processes prepare, alone and for the model."""
    subject = case.subject().model_copy(update={"blocks": Blocks(least=BLOCKS, most=BLOCKS)})
    order = order_of(case, subject, 0.01)
    (plan,) = (plan for plan in order.session.runs if plan.run == STREAMED)
    session_plan = order.session.model_copy(update={"runs": (plan,)})
    order = order.model_copy(update={"session": session_plan, "runs": (STREAMED,)})
    message = PerformOrder(order, SHIPPED_MANIFESTS, {}, ALLOWED, NO_ROOF)
    with (
        mock.patch.object(session_pool, "processes_for", return_value=processes),
        mock.patch.object(session_pool, "needed_processes", return_value=processes),
        TemporaryDirectory(prefix="mlscope-") as folder,
    ):
        opener = SessionOpener(message, Path(folder))
        session = opener.open()
        try:
            outputs = session.predictor.predict(session.slots[0].inputs)
            copies = {name: array.copy() for name, array in outputs.items()}
            instant = replace(session, predictor=Instant(session.predictor, copies))
            alone, together = (
                median(measured(own, order, lambda: (0.0, 0.0), opener)[0].samples_per_s[STREAMED])
                for own in (instant, session)
            )
        finally:
            session.close()
    return alone, together


def main() -> int:
    """Print the rates of each number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--around", type=int, default=2)
    parser.add_argument("--only", default="resnet50 bfloat16 256")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    (case,) = (case for case in CASES if case.name == options.only)
    own = processes_for(usable_cores(), 0, 64, 64)
    with keeping("process_counts", is_wanted=options.keep):
        print(f"{case.name}, {usable_cores()} cores, the agent's own number is {own}")
        print(f"{'processes':>9}{'alone/s':>10}{'streamed/s':>12}")
        for number in [*range(own - options.around, own + options.around + 1), own]:
            alone, together = rates(case, number)
            print(f"{number:9}{alone:10.0f}{together:12.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
