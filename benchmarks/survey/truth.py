"""Leveled measurement beside the truth, on a GPU: layers of known length.

`python -m benchmarks.survey.truth OUT [--core N]` measures 120 layers of 5 to 50 launches (33 to
220 us each) at levels model, framework and system, ten blocks in turn, each block beside the truth
taken in the same minute: the same layers called bare, one by one and as a network. It leaves the
bundles and `truth.json`; `python -m benchmarks.survey.tables OUT` prints both side by side. Wanted:
ours within 2 % in the median of ten blocks, a single pass at the deepest level 10 % off or more.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from benchmarks.survey import measuring
from benchmarks.survey.subjects import Net

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


def compare(folder: Path) -> None:
    """Measure round by round into a folder, and print medians."""
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
    network = spinning.network(cycles, times)
    rounds: list[dict[str, Any]] = []
    for number in range(ROUNDS):
        before, known_times_ns = _bare_ns(network), spinning.known_ns(cycles, times)
        plan = measuring.plan_of(net.subject("gpu"), [1], QUERIES, measuring.LEVELS)
        outcomes = measuring.measure(plan, folder / f"truth-{number}.bundle")
        again, after = spinning.known_ns(cycles, times), _bare_ns(network)
        layers_ns = [(a + b) / 2 for a, b in zip(known_times_ns, again, strict=True)]
        rounds.append(
            {
                "bare_ms": (before + after) / 2e6,
                "layers_ns": layers_ns,
                "layers_ms": sum(layers_ns) / 1e6,
                "runs_ms": measuring.medians_ms(outcomes),
            }
        )
    report = {"clock_hz": hz, "times": times, "rounds": rounds}
    (folder / "truth.json").write_text(json.dumps(report))
    for level in measuring.LEVELS:
        run = f"b1-online-{level.name.lower()}"
        off = statistics.median(
            microseconds["runs_ms"][run] / microseconds["bare_ms"] - 1 for microseconds in rounds
        )
        print(f"{run:24} {100 * off:+6.2f} % of the bare model", flush=True)
    for microseconds in rounds:
        print({k: v for k, v in microseconds.items() if k != "layers_ns"}, flush=True)


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
