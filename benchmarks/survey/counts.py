"""Hardware counters of whole models from ncu's report and `counting`'s answers."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.survey.bounds import TimeIsUp
from mlscope.importing.ncu.flops import flops_of
from mlscope.importing.ncu.metrics import (
    DURATION,
    OCCUPANCY,
    READ_BYTES,
    WRITTEN_BYTES,
    metrics_for,
)
from mlscope.importing.ncu.report import CountedKernel, kernels_of
from services.agent.collectors.ncu.collector import tool

METRICS = metrics_for("float32")
OPENING_S = 90.0
"""More than torch's start and the model that is under way when the time is up."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What one call of a model does, from one call of each kind of its operators."""

    #: kernels that ran under the profiler, and those they stand for
    counted: int
    kernels: int
    flops: float
    read_bytes: float
    written_bytes: float
    #: percent of the warps a multiprocessor holds, weighted by time (XSP III-D3)
    occupancy: float
    kernel_ns: float


def command_of(report: Path, order: Path) -> list[str]:
    """Return the command that counts the models of an order."""
    return [
        *(tool() or "ncu", "--clock-control", "none", "--cache-control", "none"),
        "--profile-from-start",
        "off",
        "--nvtx",
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--metrics",
        ",".join(METRICS),
        "--log-file",
        str(report),
        sys.executable,
        "-m",
        "benchmarks.survey.counting",
        str(order),
    ]


def run(out: Path, number: int, models: Sequence[tuple[str, int]], seconds: float) -> str:
    """Count models for so long; leave a report and answers in `out`, and return what was said.

    A model that fails or outlasts the time loses nothing of those before it. None is begun in the
    last `OPENING_S`. Raises TimeIsUp where that is all there is.
    """
    if seconds <= OPENING_S:
        raise TimeIsUp
    report, answers = (out / f"counts-{number}.{kind}" for kind in ("csv", "jsonl"))
    order = out / f"counts-{number}.json"
    answers.unlink(missing_ok=True)
    job = {"models": models, "seconds": seconds - OPENING_S, "answers": str(answers.resolve())}
    order.write_text(json.dumps(job))
    # Ended by SIGINT, ncu still writes down what it counted.
    with subprocess.Popen(
        command_of(report, order), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                printed, _ = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                printed, _ = process.communicate()
    return printed


def read(out: Path, number: int) -> dict[str, tuple[int, Counted]]:
    """Return the batch size and counters of each model that was counted whole.

    Raises ReportUnreadable where ncu left no table.
    """
    answers, report = out / f"counts-{number}.jsonl", out / f"counts-{number}.csv"
    answers_read = [json.loads(line) for line in answers.read_text().splitlines()]
    kernels = kernels_of(report.read_text().splitlines(keepends=True), METRICS)
    return {
        answer["model"]: (answer["batch"], summed(kernels, answer["times"]))
        for answer in answers_read
    }


def summed(kernels: Sequence[CountedKernel], times: Mapping[str, int]) -> Counted:
    """Return the sums over the kernels of kinds, each taken as often as its kind came.

    `times` tells that by the name of the kind's range; kernels of other ranges are left out.
    """
    mine = [(times[kernel.layer], kernel) for kernel in kernels if kernel.layer in times]

    def total(name: str) -> float:
        return sum(count * kernel.counters.get(name, 0.0) for count, kernel in mine)

    kernel_flops = ((count, flops_of(kernel.counters)) for count, kernel in mine)
    flops = sum(count * estimate.value for count, estimate in kernel_flops if estimate is not None)
    kernel_ns = total(DURATION)
    busy = sum(
        count * kernel.counters.get(OCCUPANCY, 0.0) * kernel.counters.get(DURATION, 0.0)
        for count, kernel in mine
    )
    return Counted(
        counted=len(mine),
        kernels=sum(count for count, _ in mine),
        flops=flops,
        read_bytes=total(READ_BYTES),
        written_bytes=total(WRITTEN_BYTES),
        occupancy=busy / kernel_ns if kernel_ns else 0.0,
        kernel_ns=kernel_ns,
    )
