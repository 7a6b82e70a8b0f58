"""Preparing a photograph and finishing a batch, on one core, beside the libraries' calls alone.

`python -m benchmarks.preparation [--rounds 15] [--processes N] [--alternatives] [--keep]`

The steps of torchvision-resnet50 over the shipped photographs, as the worker and its preparing
processes carry them out, with the stamps of every step: beside the same calls of Pillow and NumPy
in one function, and beside the steps of release 0.1. Then steps behind models, and words of text,
beside those of release 0.1. Contestants take turns, forwards and backwards; CPU time counts, which
others' load changes less; medians over the rounds, and of the rounds' ratios. Results are compared
first: all are equal in every bit, except with fast_image_resize. Wanted: 0.9 of the rate of the
calls alone, 1.3 times the earlier steps'; behind models, 2 times for `topk` and `segmentation`.

`--processes N`: so many processes prepare photographs at the same time; what they reach together,
and the share of N times one process. It counts the clock's time: the machine must be quiet. Wanted
on the 16 cores of an H200's host with 13: 2,200 a second, 3,500 with fast_image_resize.

`--alternatives` shows other libraries, where they are installed, and decides nothing.
"""

import argparse
import gc
import io
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import yaml
from PIL import Image

from benchmarks.claims import claim
from benchmarks.earlier_steps import earlier_step, earlier_suppressed, earlier_tokens
from benchmarks.preparation_alternatives import alternatives
from benchmarks.preparation_processes import Contest
from benchmarks.timing import keeping
from mlscope.image_geometry import covering, cut_before
from schemas.manifest import ModelManifest, Step
from services.agent.steps import Operator, operator_of
from services.agent.steps.linking import linked
from services.agent.steps.operators.wordpiece import basic_tokens
from services.agent.steps.suppression import suppressed
from services.agent.worker.queries.pipeline import Pipeline, PortOperators
from services.agent.worker.queries.sample_steps import SampleSteps

MANIFESTS = Path(__file__).parents[1] / "manifests"
OURS, ALONE, EARLIER = "mlscope", "the calls alone", "mlscope 0.1"
FAST = "mlscope, fast_image_resize"
WANTED_OVER_ALONE, WANTED_OVER_EARLIER, WANTED_BEHIND = 0.9, 1.3, 2.0
_TEXT = "The quick brown fox jumps over the lazy dog, and runs away from machinery! " * 9

Prepare = Callable[[int], object]
"""Prepares the photograph with this number and puts it into its place of a batch."""


class Steps:
    """Steps as the worker carries them out, with the CPU time of each.

    `operators` are those of one input; the batch `array` has a place for each of the `bodies`.
    """

    def __init__(self, operators: Sequence[Operator], bodies: Sequence[bytes], array: Any) -> None:
        """Begin without any time."""
        port = PortOperators("", tuple(operators))
        self._steps = SampleSteps(Pipeline(before=(port,)))
        self._bodies = bodies
        self.operators, self.array = port.steps, array
        #: seconds of every call, by step
        self.seconds: list[list[float]] = [[] for _ in operators]

    def prepare(self, number: int) -> object:
        """Prepare a photograph; return its fault, None without."""
        return self._steps.prepare(lambda: self._bodies[number], (self.array,), number, self._apply)

    def _apply(self, number: int, operator: Operator, arguments: tuple[Any, ...]) -> Any:
        began = time.process_time()
        try:
            return operator.apply(*arguments)
        finally:
            self.seconds[number].append(time.process_time() - began)


def calls_alone(bodies: Sequence[bytes], array: Any, steps: Mapping[str, Step]) -> Prepare:
    """Return the calls of Pillow and NumPy that the steps make, in one function."""
    covered = tuple(steps["resize"].parameters["dimensions"][-2:])
    side = steps["crop"].parameters["dimensions"][-1]
    means, scales = (
        np.array(steps["normalize"].parameters[name], np.float32) for name in ("mean", "scale")
    )

    def prepare(number: int) -> None:
        with Image.open(io.BytesIO(bodies[number])) as file:
            file.load()
            picture: Image.Image = file if file.mode == "RGB" else file.convert("RGB")
        height, width = covering((picture.height, picture.width), covered)
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        left, top = (cut_before(edge - side, centred=True) for edge in picture.size)
        pixels = np.asarray(picture.crop((left, top, left + side, top + side)))
        for plane, channel in zip(array[number], range(3), strict=True):
            np.subtract(pixels[:, :, channel], means[channel], out=plane, dtype=np.float32)
            np.divide(plane, scales[channel], out=plane)

    return prepare


def in_turns(
    contestants: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Return the CPU seconds of all contestants in each round; the first round warms them."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name in list(contestants)[:: -1 if number % 2 else 1]:
            began = time.process_time()
            contestants[name]()
            seconds[name].append(time.process_time() - began)
    return {name: own_seconds[1:] for name, own_seconds in seconds.items()}


def ratio(seconds: Mapping[str, list[float]], peer: str, own: str) -> float:
    """Return how many times the rate of a peer one has: the median over the rounds."""
    return median(a / b for a, b in zip(seconds[peer], seconds[own], strict=True))


def shipped_photographs() -> list[bytes]:
    """Return the files of the shipped photographs."""
    return [path.read_bytes() for path in sorted((MANIFESTS / "datasets/photos").glob("*.jpg"))]


def contestants_of(
    bodies: Sequence[bytes], *, with_alternatives: bool = False
) -> tuple[dict[str, Prepare], dict[str, Steps], Any]:
    """Return the ways to prepare, those of them that are steps, and the earlier batch.

    Raises AssertionError where a result differs that must not.
    """
    text = (MANIFESTS / "models/torchvision/torchvision-resnet50.yml").read_text()
    model = ModelManifest.model_validate(yaml.safe_load(text))
    steps = {step.operator: step for step in model.inputs[0].steps}

    def batch() -> Any:
        return np.zeros((len(bodies), 3, 224, 224), np.float32)

    def linked_steps(**resizing: Any) -> Steps:
        changed = {**steps["resize"].parameters, **resizing}
        own = steps | {"resize": Step(operator="resize", parameters=changed)}
        return Steps(
            linked([operator_of(step, lambda _: ()) for step in own.values()]), bodies, batch()
        )

    earlier = [Operator(name, earlier_step(step)) for name, step in steps.items()]
    by_steps = {OURS: linked_steps(), EARLIER: Steps(earlier, bodies, batch())}
    if find_spec("cykooz_resizer"):
        by_steps[FAST] = linked_steps(library="fast_image_resize")
    alone = batch()
    contestants: dict[str, Prepare] = {
        OURS: by_steps[OURS].prepare,
        ALONE: calls_alone(bodies, alone, steps),
    }
    contestants |= {name: own.prepare for name, own in by_steps.items()}
    for prepare in contestants.values():
        assert not any(prepare(number) for number in range(len(bodies)))
    expected = by_steps[EARLIER].array
    assert np.array_equal(by_steps[OURS].array, expected)
    assert np.array_equal(alone, expected)
    if with_alternatives:
        contestants |= alternatives(bodies, batch(), steps)
    return contestants, by_steps, expected


def photographs(rounds: int, *, with_alternatives: bool) -> list[tuple[str, float, float]]:
    """Print what preparing a photograph takes; return claims: text, value and limit."""
    bodies = shipped_photographs()
    contestants, by_steps, expected = contestants_of(bodies, with_alternatives=with_alternatives)

    def all_of(prepare: Prepare) -> None:
        for number in range(len(bodies)):
            prepare(number)

    for own in by_steps.values():
        own.seconds = [[] for _ in own.operators]
    seconds = in_turns(
        {name: partial(all_of, prepare) for name, prepare in contestants.items()}, rounds
    )
    print(f"{len(bodies)} photographs, torchvision-resnet50: ms of CPU a photograph")
    for name in contestants:
        ms = median(seconds[name]) / len(bodies) * 1e3
        print(f"  {name:42}{ms:7.3f}{ratio(seconds, EARLIER, name):7.2f} times the earlier steps")
    if FAST in by_steps:
        distance = np.abs(by_steps[FAST].array - expected).max()
        print(f"  fast_image_resize is up to {distance:.3f} standard deviations off; others 0")
    print(f"\n  {'ms of CPU by step':24}" + "".join(f"{name:>28}" for name in by_steps))
    for number, operator in enumerate(by_steps[OURS].operators):
        values = [mean(own.seconds[number]) * 1e3 for own in by_steps.values()]
        print(f"  {operator.name:24}" + "".join(f"{value:28.3f}" for value in values))
    return [
        ("of the rate of the calls alone", ratio(seconds, ALONE, OURS), WANTED_OVER_ALONE),
        ("times the rate of the earlier steps", ratio(seconds, EARLIER, OURS), WANTED_OVER_EARLIER),
    ]


def ways_to_prepare() -> dict[str, Prepare]:
    """Return the ways to prepare the shipped photographs, in a process of its own."""
    return contestants_of(shipped_photographs())[0]


def rates_of(processes: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the photographs a second of one process and of several together, by way."""
    contest = Contest(ways_to_prepare, len(shipped_photographs()))
    return contest.rates(1), contest.rates(processes)


def several_processes(processes: int) -> None:
    """Print how many photographs a second so many processes prepare, beside one."""
    alone, together = rates_of(processes)
    print(
        f"\n{'photographs a second':42}{'1 process':>14}{f'{processes} processes':>14}{'share':>8}"
    )
    for name, rate in together.items():
        share = rate / alone[name] / processes
        print(f"  {name:40}{alone[name]:14,.0f}{rate:14,.0f}{share:8.2f}")


def other_steps(rounds: int) -> list[tuple[str, float, float]]:
    """Print what steps behind models and of text take; return claims: text, value and limit."""
    random = np.random.default_rng(1)
    scores = random.standard_normal((256, 1000)).astype(np.float32)
    noise = random.standard_normal((1, 21, 520, 520)).astype(np.float32)
    object_mask = np.zeros_like(noise)
    object_mask[0, 15, 100:400, 150:350] = 1.0
    low = random.random((2000, 2)) * 600
    boxes = np.hstack([low, low + random.random((2000, 2)) * 60])
    detected = boxes, random.random(2000), random.integers(0, 80, 2000)
    rows: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        f"{name}, {what}": (
            partial(earlier_step(Step(operator=name)), values),
            partial(operator_of(Step(operator=name), lambda _: ()).apply, values),
        )
        for name, what, values in (
            ("topk", "256 rows of 1,000", scores),
            ("softmax", "256 rows of 1,000", scores),
            ("sigmoid", "256 rows of 1,000", scores),
            ("segmentation", "a map of one object", object_mask),
            ("segmentation", "a map of noise", noise),
        )
    }
    rows["suppression, best 100 of 2,000 boxes"] = (
        lambda: earlier_suppressed(*detected, 0.5)[:100],
        lambda: suppressed(*detected, 0.5, max_count=100),
    )
    rows["tokenize, the words of 700 characters"] = (
        lambda: earlier_tokens(_TEXT, lowercase=True),
        lambda: basic_tokens(_TEXT, lowercase=True),
    )
    print(f"\n{'other steps: ms of CPU':42}{EARLIER:>14}{OURS:>14}{'times':>8}")
    claims = []
    for name, (earlier, own) in rows.items():
        assert np.array_equal(earlier(), own())
        seconds = in_turns({EARLIER: earlier, OURS: own}, max(rounds // 3, 3))
        values = (median(seconds[batch_name]) * 1e3 for batch_name in (EARLIER, OURS))
        times = ratio(seconds, EARLIER, OURS)
        print(f"  {name:40}" + "".join(f"{value:14.2f}" for value in values) + f"{times:8.1f}")
        if name.startswith(("topk", "segmentation")):
            claims.append((f"times the earlier {name}", times, WANTED_BEHIND))
    return claims


def main() -> int:
    """Measure in turns and print; return how many claims were missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--processes", type=int, default=0, help="at the same time")
    parser.add_argument("--alternatives", action="store_true", help="also other libraries")
    parser.add_argument("--keep", action="store_true", help="write results/preparation.txt")
    options = parser.parse_args()
    gc.disable()  # as in the blocks of a run
    with keeping("preparation", is_wanted=options.keep):
        claims = photographs(options.rounds, with_alternatives=options.alternatives)
        if options.processes:
            several_processes(options.processes)
        claims += other_steps(options.rounds)
        print(f"\nmedians of {options.rounds} rounds, load {os.getloadavg()[0]:.1f} at the end")
        for text, value, limit in claims:
            claim(text, value, least=limit, unit="x", peer="the libraries' calls alone")
            print(f"{value:7.2f} {text}; wanted {limit:g}: {'yes' if value >= limit else 'NO'}")
    return sum(value < limit for _, value, limit in claims)


if __name__ == "__main__":
    sys.exit(main())
