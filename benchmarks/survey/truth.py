"""Leveled measurement beside the truth, on a GPU: layers of known length.

`python -m benchmarks.survey.truth OUT [--core N]` measures 120 layers of 5 to 50 launches (33 to
220 us each) at levels model, framework and system, ten blocks of each in turn. Before the first
block and after every block it takes the truth: the same layers called bare, as a network and one by
one. A block is compared with the truths on both of its sides, because a host's clock changes within
seconds. It leaves a bundle and `truth.json`; `python -m benchmarks.survey.tables OUT` prints both
side by side. Wanted: ours within 2 % in the median of ten blocks, a single pass at the deepest
level 10 % off or more.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from benchmarks.survey import measuring
from benchmarks.survey.subjects import Net
from schemas.run import RunCompleted
from services.agent.worker.group import Group
from services.agent.worker.measurement import Measurement

LAYERS, ROUNDS, QUERIES = 120, 10, 20
#: most layers short
LAUNCHES = (5, 5, 5, 6, 7, 8, 10, 14, 24, 50)


def main() -> int:
    """Measure round by round, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--core", type=int, help="make every call from this one")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with measuring.pinned(options.core):
        compare(options.out)
    return 0


@dataclass(slots=True)
class Truth:
    """What the layers take outside of an agent, each time that it was taken."""

    network: Any
    cycles: int
    #: launches of each layer
    times: Sequence[int]
    #: a call of the network, and each layer alone, in ns
    bare_ns: list[float] = field(default_factory=list)
    layers_ns: list[list[float]] = field(default_factory=list)
    #: run and block between two consecutive truths
    blocks: list[tuple[str, int]] = field(default_factory=list)

    def take(self) -> None:
        """Time the network and its layers."""
        from benchmarks.survey import spinning

        before = _bare_ns(self.network)
        self.layers_ns.append(spinning.known_ns(self.cycles, self.times))
        self.bare_ns.append((before + _bare_ns(self.network)) / 2)

    def beside(self, number: int) -> tuple[float, list[float]]:
        """Return the call and the layers (ns) around the block of a number: means of two truths."""
        bare_ns = (self.bare_ns[number] + self.bare_ns[number + 1]) / 2
        pairs = zip(self.layers_ns[number], self.layers_ns[number + 1], strict=True)
        return bare_ns, [(before + after) / 2 for before, after in pairs]

    def group_type(self) -> type[Group]:
        """Return a group that takes the truth after each of its blocks."""
        truth = self

        class GroupBesideTruth(Group):
            def _perform_block(
                self, run: Measurement, work: Callable[[Measurement], None], block: int
            ) -> None:
                super()._perform_block(run, work, block)
                truth.blocks.append((run.plan.run, block))
                truth.take()

        return GroupBesideTruth


def compare(folder: Path) -> None:
    """Measure block by block into a folder, and print medians."""
    from benchmarks.survey import spinning

    hz = spinning.calibrated_hz()
    cycles = round(spinning.SPIN_US * hz * 1e-6)
    order = np.random.default_rng(1).permutation([*LAUNCHES] * (LAYERS // len(LAUNCHES)))
    times = [int(microseconds) for microseconds in order]
    net = Net(
        "spinning",
        "benchmarks.survey.spinning.network",
        shape=(4,),
        arguments={"cycles": cycles, "times": times},
        batch_sizes=(1,),
    )
    truth = Truth(spinning.network(cycles, times), cycles, times)
    truth.take()
    plan = measuring.plan_of(net.subject("gpu"), [1], QUERIES, measuring.LEVELS, ROUNDS)
    outcomes = measuring.measure(plan, folder / "truth.bundle", group_type=truth.group_type())
    medians_ns = {
        outcome.run: [block.median_ns for block in outcome.blocks]
        for outcome in outcomes
        if isinstance(outcome, RunCompleted)
    }
    blocks: list[dict[str, Any]] = []
    for number, (run, block) in enumerate(truth.blocks):
        bare_ns, layers_ns = truth.beside(number)
        blocks.append({"run": run, "block": block, "bare_ns": bare_ns, "layers_ns": layers_ns})
    report = {"clock_hz": hz, "times": times, "blocks": blocks}
    (folder / "truth.json").write_text(json.dumps(report))
    for run, run_medians_ns in medians_ns.items():
        off = statistics.median(
            run_medians_ns[figures["block"]] / figures["bare_ns"] - 1
            for figures in blocks
            if figures["run"] == run
        )
        print(f"{run:24} {100 * off:+6.2f} % of the bare model", flush=True)
    bare_ms = [f"{bare_ns / 1e6:.2f}" for bare_ns in truth.bare_ns]
    print("bare model, ms, before and after each block:", *bare_ms, flush=True)


def _bare_ns(network: Any, times: int = 30) -> float:
    """Return what a call takes as an agent makes it, with nothing on."""
    import torch

    values = torch.zeros(1, 4)
    times_ns = []
    with torch.inference_mode():
        for _ in range(times):
            began = perf_counter_ns()
            network(values.to("cuda", non_blocking=True)).cpu().numpy()
            times_ns.append(perf_counter_ns() - began)
    return statistics.median(times_ns)


if __name__ == "__main__":
    sys.exit(main())
