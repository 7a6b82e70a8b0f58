"""A fed GPU whose pictures the GPU itself decodes, beside processes that decode them.

`python -m benchmarks.decoded_on_gpu [--only NAME ...] [--keep]`, on a GPU with torchvision. Each
case is a session as an agent opens it, on the dataset photos: with `normalize: device` in both, and
`decode: host` and `decode: device` in turn. Printed are samples a second of preparation alone, with
a model that answers at once; of the model alone, prepared ahead; of both together, streamed; and
the last over the bound of the two before: medians of the blocks. Processes and GPU work side by
side, so that their bound is the least rate; a GPU that decodes and predicts does so in turn.
"""

import argparse
import sys
from dataclasses import replace
from statistics import median

from benchmarks.feeding_cases import CASES, FULL, Case, Effort
from benchmarks.feeding_gpu import AHEAD, STREAMED, instant_of, measured, opened
from benchmarks.timing import keeping
from schemas.plan import WorkOrder
from services.agent.worker.session import Session
from services.agent.worker.session_opener import SessionOpener

CASE_NAMES = (
    "resnet50 float32 256",
    "resnet50 bfloat16 32",
    "resnet50 bfloat16 256",
    "convnext-tiny 32",
)


def rates(case: Case, place: str, effort: Effort = FULL) -> tuple[float, float, float, list[str]]:
    """Return the rates of preparation, of the model and of both, and the session's notes."""
    options = {**case.options, "normalize": "device", "decode": place}
    case = replace(case, options=options if effort.device == "gpu" else case.options)
    with opened(case, 0.02, effort) as (session, order, opener):
        alone = rate(instant_of(session), order, opener, STREAMED)
        ahead, streamed = (rate(session, order, opener, run) for run in (AHEAD, STREAMED))
        return alone, ahead, streamed, [note for note in session.notes if "device" in note]


def bound(place: str, alone: float, ahead: float) -> float:
    """Return the bound of preparation and model with these rates, decoded in a `place`."""
    return 1 / (1 / alone + 1 / ahead) if place == "device" else min(alone, ahead)


def rate(session: Session, order: WorkOrder, opener: SessionOpener, run: str) -> float:
    """Return the median rate of one run of an order."""
    plans = tuple(plan for plan in order.session.runs if plan.run == run)
    plan = order.session.model_copy(update={"runs": plans})
    run_order = order.model_copy(update={"session": plan, "runs": (run,)})
    blocks, _ = measured(session, run_order, lambda: (0.0, 0.0), opener)
    return median(blocks.samples_per_s[run])


def main() -> int:
    """Print the rates of each case, decoded on the host and on the GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=CASE_NAMES)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("PyTorch sees no GPU here: nothing was measured")
        return 0
    with keeping("decoded_on_gpu", is_wanted=options.keep):
        print(torch.cuda.get_device_name(), "samples/s; the last is streamed / bound")
        for case in CASES:
            if case.name not in options.only:
                continue
            for place in ("host", "device", "host", "device"):
                alone, ahead, streamed, notes = rates(case, place)
                print(
                    f"{case.name:24} decode: {place:6} prepared {alone:7.0f}, ahead {ahead:7.0f},"
                    f" streamed {streamed:7.0f}, {streamed / bound(place, alone, ahead):.3f}",
                    flush=True,
                )
            print(*notes, sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
