"""HolisticTraceAnalysis and mlscope on one Kineto file: what both answer, loading included.

`python -m benchmarks.against_hta --hta-python PATH [--small 20,100,10] [--large 150,100,10]
[--steps 20,1500,5] [--operators-of small] [--keep]`

HTA is no dependency: `python -m venv V && V/bin/pip install HolisticTraceAnalysis 'pandas<3'`. Both
start from the same JSON file, each in a process of its own, its imports done, and answer the same:

| step | HTA | mlscope |
|---|---|---|
| load | TraceAnalysis | file to spans, the tree of all, device work with layers and launches |
| kernels | get_gpu_kernel_breakdown | time by type; sum, mean, std, min, max by name |
| busy | get_temporal_breakdown | unions of device work and of kernels, idle time |
| idle | get_idle_time_breakdown | idle time of each stream: waiting for the host, kernels, other |
| launches | get_cuda_kernel_launch_stats | of each launch: its duration, its kernel's, the delay |
| annotations | get_gpu_kernels_with_user_annotations | the step of each kernel |
| operators | get_aten_op_kernels_and_delay | by operator and its kernels: how often, delays |

What they found is compared (HTA reads to the ns, all steps). HTA's operators take it minutes
on a large file; `--operators-of` names the files of which they are asked. Its loading grows with
steps times events, so one large file has many steps and one few. A file is queries, layers and
launches a layer. Wanted: 30 times faster for what both do; the ratio of every step is printed.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.claims import claim
from benchmarks.kineto_file import write
from benchmarks.timing import keeping
from benchmarks.tracing import Shape, spans_of

WANTED_RATIO = 30.0
OPERATORS = "operators"
FILES = ("small", "large", "steps")
TOLERANCE = 1e-3
_PEER = Path(__file__).with_name("hta_side.py")
Report = Mapping[str, Any]


def compared(python: str, shape: Shape, *, has_operators: bool) -> float:
    """Print both sides' times on one file; return how many times faster all of ours is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        events, size = write(path, spans_of(shape)), path.stat().st_size
        print(
            f"\n{events:,} events, {size / 1e6:.0f} MB of JSON: {shape.queries} steps of "
            f"{shape.layers} operators, {shape.all_launches:,} launches; load average "
            f"{os.getloadavg()[0]:.1f}"
        )
        arguments = [str(path), *([OPERATORS] if has_operators else [])]
        mine = _report_of(sys.executable, ["-m", "benchmarks.mlscope_side", *arguments])
        peer = _report_of(python, [str(_PEER), *arguments])
    if not isinstance(peer, dict):
        print(f"HTA fails on it: {peer}")
        return 0.0
    assert isinstance(mine, dict), mine
    _print_steps(mine["seconds"], peer["seconds"])
    apart = [
        f"{name}: {mine['found'].get(name)} and {value}"
        for name, value in peer["found"].items()
        if not math.isclose(
            float(mine["found"].get(name, 0)), value, rel_tol=TOLERANCE, abs_tol=TOLERANCE
        )
    ]
    figures = len(peer["found"])
    alike = f"{figures - len(apart)} of {figures} figures agree within {TOLERANCE:.1%}"
    print(alike + (f"; not (ours and theirs): {'; '.join(apart)}" if apart else ""))
    return _total(peer["seconds"]) / _total(mine["seconds"])


def _report_of(python: str, arguments: Sequence[str]) -> dict[str, Any] | str:
    """Return what a side says, or the last line of its error."""
    environ = {**os.environ, "HTA_DISABLE_NS_ROUNDING": "1"}
    ended = subprocess.run(
        [python, *arguments], capture_output=True, text=True, check=False, env=environ
    )
    if ended.returncode:
        return "".join(ended.stderr.splitlines()[-1:]) or f"status {ended.returncode}"
    report: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return report


def _print_steps(mine: Report, peer: Report) -> None:
    print(f"{'wall (CPU), s':14} {'mlscope':>16} {'HTA':>18} {'ratio':>7}")
    for step, theirs in peer.items():
        _print_step(step, mine[step], theirs)
    _print_step("all", _sum(mine), _sum(peer))
    for left_out in [step for step in (OPERATORS, "load") if step in peer]:
        sums = [
            _sum({step: took for step, took in report.items() if step != left_out})
            for report in (mine, peer)
        ]
        _print_step(f"all but {left_out}", *sums)


def _print_step(step: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
    cells = [f"{wall:.3f} ({cpu:.3f})" for wall, cpu in (ours, theirs)]
    ratio = theirs[0] / ours[0] if ours[0] else float("inf")
    print(f"{step:18} {cells[0]:>14} {cells[1]:>18} {ratio:7.1f}")


def _sum(report: Report) -> tuple[float, float]:
    return sum(wall for wall, _ in report.values()), sum(cpu for _, cpu in report.values())


def _total(report: Report) -> float:
    return _sum(report)[0]


def _shape(text: str) -> Shape:
    queries, layers, launches = (int(number) for number in text.split(","))
    return Shape(queries, layers, launches)


def main() -> int:
    """Compare on each file; 1 where one is not as much faster as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hta-python", default=os.environ.get("MLSCOPE_HTA_PYTHON", ""))
    parser.add_argument("--small", type=_shape, default=Shape(20, 100, 10))
    parser.add_argument("--large", type=_shape, default=Shape(150, 100, 10))
    parser.add_argument("--steps", type=_shape, default=Shape(20, 1500, 5))
    parser.add_argument(
        "--operators-of",
        nargs="+",
        choices=FILES,
        default=FILES,
        help="files of which HTA's operators are asked: of the large ones it takes 2 minutes each",
    )
    parser.add_argument("--keep", action="store_true", help="write results/against_hta.txt too")
    options = parser.parse_args()
    if not options.hta_python:
        print("no --hta-python: not compared with HolisticTraceAnalysis")
        return 0
    operator_files = options.operators_of
    with keeping("against_hta", is_wanted=options.keep):
        ratios = {
            name: compared(
                options.hta_python, getattr(options, name), has_operators=name in operator_files
            )
            for name in FILES
        }
        held = [
            claim(f"times faster, {name}", ratios[name], least=WANTED_RATIO, unit="x", peer="HTA")
            for name in operator_files
        ]
        holds = all(held)
        measured = {
            has: ", ".join(
                f"{ratios[name]:.1f} ({name})" for name in FILES if (name in operator_files) == has
            )
            for has in (True, False)
        }
        print(
            f"\nwanted: {WANTED_RATIO:.0f} times faster for all that both do: {measured[True]}, "
            f"{'yes' if holds else 'no'}; where {OPERATORS} were not asked: "
            f"{measured[False] or '-'}"
        )
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
