"""Measures the survey's models on this machine's GPU, a step at a time.

`python -m benchmarks.gpu.survey OUT [--seconds 460] [PHASE …]`

OUT holds `state.json` and a bundle a step; what is in the state is not done again, so the same
command goes on where the last one ended, also on another machine that OUT was copied to. It
begins no step after `--seconds`. Phases: `sweep` (level model, batch 1 to 256), `system` (layers
and kernels at the optimal batch), `deep` (ResNet-50 at every batch, BERT, ViT, detector: levels
model to system), `counters` (hardware counters of DEEP at the largest batch measured, by ncu's
kernel replay), `ranges` (bytes and occupancy of whole models at their optimal batch, by ncu's range
replay), `products` (multiply-adds of their kernels).
"""

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu import measuring, ranges
from benchmarks.gpu.subjects import DEEP, SURVEYED, Net
from schemas.level import Level
from schemas.run import RunFailed
from services.agent.offline import Means, run_plan

PHASES = ("sweep", "system", "deep", "counters", "ranges", "products")
SWEEP_QUERIES, ONLINE_QUERIES, DEEP_QUERIES = 8, 40, 4
BLOCKS = 3
COUNTED = {"resnet50": 32, "fasterrcnn-resnet50-fpn": 1}
"""Batch sizes of counted replays; 16 of others."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do once."""

    name: str
    act: Callable[[Path, "State"], Mapping[str, Any]]


class State:
    """What is done, kept in a file after each step."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.done: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def note(self, step: str, found: Mapping[str, Any]) -> None:
        """Keep what a step found."""
        self.done[step] = dict(found)
        self._path.write_text(json.dumps(self.done, indent=1, sort_keys=True))

    def optimal(self, net: Net) -> int:
        """Return a model's optimal batch; raises KeyError before its sweep."""
        return int(self.done[f"sweep {net.name}"]["optimal"])


def steps(phases: list[str]) -> Iterator[Step]:
    """Yield the steps of phases, in order."""
    if "sweep" in phases:
        yield from (Step(f"sweep {net.name}", _sweep(net)) for net in SURVEYED)
    if "system" in phases:
        yield from (Step(f"system {net.name}", _system(net)) for net in SURVEYED)
    if "deep" in phases:
        for net in DEEP:
            yield from (Step(f"deep {net.name} {s}", _deep(net, s)) for s in net.batch_sizes)
    if "counters" in phases:
        yield from (Step(f"counters {net.name}", _counters(net)) for net in DEEP)
    if "ranges" in phases:
        yield Step("ranges", _ranges)
    if "products" in phases:
        for first in range(0, len(SURVEYED), 4):
            nets = SURVEYED[first : first + 4]
            yield Step(f"products {nets[0].name}", _products(nets))


def _sweep(net: Net) -> Callable[[Path, State], Mapping[str, Any]]:
    def act(out: Path, _: State) -> Mapping[str, Any]:
        plan = measuring.plan_of(net, net.batch_sizes, SWEEP_QUERIES, [Level.MODEL])
        online = measuring.plan_of(net, [1], ONLINE_QUERIES, [Level.MODEL])
        first = online.plan.sessions[0].model_copy(update={"session": "b1-online"})
        run = first.runs[0].model_copy(update={"run": "b1-single-model"})
        first = first.model_copy(update={"runs": (run,)})
        sessions = (first, *plan.plan.sessions)
        plan = plan.model_copy(update={"plan": plan.plan.model_copy(update={"sessions": sessions})})
        outcomes = measuring.measure(plan, out / f"sweep-{net.name}.bundle")
        medians = measuring.medians_ms(outcomes)
        of_size = {
            size: medians[f"b{size}-online-model"]
            for size in net.batch_sizes
            if f"b{size}-online-model" in medians
        }
        return {
            "medians_ms": of_size,
            "single_ms": medians.get("b1-single-model"),
            "optimal": measuring.optimal_batch(of_size),
            "failed": _failures(outcomes),
        }

    return act


def _system(net: Net) -> Callable[[Path, State], Mapping[str, Any]]:
    def act(out: Path, state: State) -> Mapping[str, Any]:
        size = state.optimal(net)
        plan = measuring.plan_of(net, [size], DEEP_QUERIES, measuring.LEVELS, blocks=2)
        outcomes = measuring.measure(plan, out / f"system-{net.name}.bundle")
        return {"batch": size, "medians_ms": measuring.medians_ms(outcomes), **_told(outcomes)}

    return act


def _deep(net: Net, size: int) -> Callable[[Path, State], Mapping[str, Any]]:
    def act(out: Path, _: State) -> Mapping[str, Any]:
        plan = measuring.plan_of(net, [size], DEEP_QUERIES, measuring.LEVELS, blocks=BLOCKS)
        outcomes = measuring.measure(plan, out / f"deep-{net.name}-{size}.bundle")
        return {"medians_ms": measuring.medians_ms(outcomes), **_told(outcomes)}

    return act


def _counters(net: Net) -> Callable[[Path, State], Mapping[str, Any]]:
    """Counters by the agent itself: a worker of its own, and ncu under that."""

    def act(out: Path, _: State) -> Mapping[str, Any]:
        size = COUNTED.get(net.name, 16)
        plan = measuring.counters_plan(net, size)
        path = out / f"counters-{net.name}.bundle"
        outcomes = run_plan(plan, path, Means(allowed=measuring.ALLOWED))
        return {"batch": size, **_told(outcomes)}

    return act


def _ranges(out: Path, state: State) -> Mapping[str, Any]:
    """Count bytes and occupancy of whole models: one process for all, each a range of ncu's."""
    sizes = {net.name: state.optimal(net) for net in SURVEYED if f"sweep {net.name}" in state.done}
    return _counted(ranges.range_command, out / "ranges.csv", sizes)


def _products(nets: Sequence[Net]) -> Callable[[Path, State], Mapping[str, Any]]:
    """Count the multiply-adds of some models, kernel by kernel."""

    def act(out: Path, state: State) -> Mapping[str, Any]:
        sizes = {net.name: state.optimal(net) for net in nets}
        return _counted(ranges.kernel_command, out / f"products-{nets[0].name}.csv", sizes)

    return act


def _counted(
    command: Callable[[Path, Path], list[str]], report: Path, sizes: Mapping[str, int]
) -> Mapping[str, Any]:
    models = report.with_suffix(".json")
    models.write_text(json.dumps(dict(sizes)))
    ended = subprocess.run(
        command(report, models), capture_output=True, text=True, timeout=240, check=False
    )
    text = report.read_text() if report.exists() else ""
    talk = [line for line in text.splitlines() if line.startswith("==ERROR")]
    if ended.returncode != 0:
        raise RuntimeError(f"ncu: {talk[-2:] or (ended.stdout + ended.stderr)[-600:]}")
    return {"models": dict(sizes), "talk": talk[-3:]}


def _failures(outcomes: list[measuring.Outcome]) -> dict[str, str]:
    return {
        each.run: f"{each.error}: {each.message}"
        for each in outcomes
        if isinstance(each, RunFailed)
    }


def _told(outcomes: list[measuring.Outcome]) -> dict[str, Any]:
    completed = [each for each in outcomes if not isinstance(each, RunFailed)]
    return {
        "failed": _failures(outcomes),
        "levels": {each.run: f"{each.level.name} {each.level_note}" for each in completed},
        "caveats": sorted({note for each in completed for note in each.caveats}),
        "spans": {each.run: each.tally.spans for each in completed},
    }


def main() -> int:
    """Do the steps that are left until the time is up; 0 when none is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("phases", nargs="*", choices=[*PHASES, []])
    parser.add_argument("--seconds", type=float, default=460.0)
    parser.add_argument("--only", default="", help="steps with this in their name")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    state = State(options.out / "state.json")
    until = time.monotonic() + options.seconds
    left = 0
    for step in steps(options.phases or list(PHASES)):
        if step.name in state.done or options.only not in step.name:
            continue
        if time.monotonic() > until:
            left += 1
            continue
        began = time.monotonic()
        try:
            found = step.act(options.out, state)
        except Exception as error:  # noqa: BLE001 - one model that fails is not the survey's end
            traceback.print_exc()
            print(f"{step.name}: {type(error).__name__}: {error}", flush=True)
            left += 1
            continue
        seconds = time.monotonic() - began
        state.note(step.name, {**found, "seconds": seconds})
        shown = {k: v for k, v in found.items() if k in ("optimal", "medians_ms", "failed")}
        print(f"{seconds:6.1f} s  {step.name}  {json.dumps(shown)[:300]}", flush=True)
    print(f"{left} steps left", flush=True)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
