"""What HolisticTraceAnalysis takes for a Kineto file; run by an interpreter that has it.

`python benchmarks/hta_side.py FILE [operators]`, nothing of mlscope imported; prints JSON: by step
wall and CPU seconds, and figures to compare.
"""

import json
import sys
import time
import warnings
from typing import Any

warnings.filterwarnings("ignore")

from hta.analyzers.cuda_kernel_analysis import (  # noqa: E402
    CudaKernelAnalysis,
)
from hta.trace_analysis import TraceAnalysis  # noqa: E402

_NS = 1000.0


class Steps:
    """Wall and CPU seconds by step."""

    def __init__(self) -> None:
        """Begin now."""
        self.seconds: dict[str, tuple[float, float]] = {}
        self._last = time.perf_counter(), time.process_time()

    def note(self, name: str) -> None:
        """End a step."""
        now = time.perf_counter(), time.process_time()
        self.seconds[name] = now[0] - self._last[0], now[1] - self._last[1]
        self._last = time.perf_counter(), time.process_time()


def measured(path: str, *, has_operators: bool) -> dict[str, Any]:
    """Return what each question took, and what was answered; times are in ns."""
    steps = Steps()
    hta = TraceAnalysis(trace_files={0: path}, include_last_profiler_step=True)
    steps.note("load")
    _, kernels = hta.get_gpu_kernel_breakdown(
        visualize=False, num_kernels=1000, duration_ratio=1.0, include_memory_kernels=True
    )
    steps.note("kernels")
    busy = hta.get_temporal_breakdown(visualize=False)
    steps.note("busy")
    idle, _ = hta.get_idle_time_breakdown(visualize=False)
    steps.note("idle")
    launches = hta.get_cuda_kernel_launch_stats(visualize=False)[0]
    steps.note("launches")
    annotated = hta.get_gpu_kernels_with_user_annotations(rank=0, shortern_names=False)
    steps.note("annotations")
    answers = {
        "device_ns": kernels["sum (us)"].sum() * _NS,
        "slowest_ns": kernels["max (us)"].max() * _NS,
        "idle_ns": busy["idle_time(us)"].iloc[0] * _NS,
        "compute_ns": busy["compute_time(us)"].iloc[0] * _NS,
        "host_wait_ns": idle[idle["idle_category"] == "host_wait"]["idle_time"].sum() * _NS,
        "launches": len(launches),
        "delay_ns": launches["launch_delay"].sum() * _NS,
        "annotated": int((annotated["user_annotation"] != -1).sum())
        if annotated is not None
        else 0,
    }
    if has_operators:
        # It knows no `visualize=False` here, and its figures are no answer.
        CudaKernelAnalysis.visualize_aten_op_kernels_and_overhead = lambda *_: None
        operators = hta.get_aten_op_kernels_and_delay()[0]
        steps.note("operators")
        answers["sequences"] = len(operators)
        answers["operators"] = int(operators["occurrence_count"].sum())
    return {
        "seconds": steps.seconds,
        "found": {name: float(value) for name, value in answers.items()},
    }


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], has_operators="operators" in sys.argv[2:])))
