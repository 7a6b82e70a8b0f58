"""Counters of whole models, where time is too short for each kernel's: one call of each under ncu.

`python -m benchmarks.gpu.ranges MODELS.json` is run under `ncu`, see the commands here. Every model
is opened once, warmed up, and one call of its module lies between the profiler's start and stop.
Memory and occupancy come by range replay: the whole call again for each pass. Instructions can't
be counted so (ncu refuses); fused multiply-adds alone come by kernel replay in few passes, where
all of a kernel's counters take 0.1 s a kernel.
"""

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

from services.agent.collectors.ncu import tool
from services.agent.collectors.ncu_metrics import DURATION, OCCUPANCY, READ_BYTES, WRITTEN_BYTES

FMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
_TENSOR = "sm__ops_path_tensor_src_tf32_dst_fp32.sum"


def range_command(report: Path, models: Path) -> list[str]:
    """Return the command that counts bytes and occupancy of the models named in a file."""
    metrics = [READ_BYTES, WRITTEN_BYTES, OCCUPANCY, DURATION, _TENSOR]
    return _command(["--replay-mode", "range"], metrics, report, models)


def kernel_command(report: Path, models: Path) -> list[str]:
    """Return the command that counts the fused multiply-adds of every kernel of the models."""
    return _command(["--profile-from-start", "off"], [FMA, DURATION], report, models)


def _command(mode: list[str], metrics: list[str], report: Path, models: Path) -> list[str]:
    return [
        *(tool() or "ncu", *mode, "--clock-control", "none", "--cache-control", "none", "--nvtx"),
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(report)),
        *("--metrics", ",".join(metrics)),
        *(sys.executable, "-m", "benchmarks.gpu.ranges", str(models)),
    ]


def main() -> int:
    """Run each model's call inside the profiler's start and stop, in the file's order."""
    import torch

    from benchmarks.gpu.measuring import ALLOWED
    from benchmarks.gpu.subjects import net_named
    from services.agent.predictors import OpenRequest
    from services.agent.predictors.pytorch import open_model

    nvtx: Any = torch.cuda.nvtx
    cuda = ctypes.CDLL("libcuda.so.1")
    for name, size in json.loads(Path(sys.argv[1]).read_text()).items():
        net = net_named(name)
        request = OpenRequest(net.manifest(), Path(), b"", size, "gpu", builders=ALLOWED.builders)
        predictor = open_model(request)
        tensor = torch.randn(size, *net.shape, device="cuda")
        with torch.inference_mode():
            for _ in range(2):
                predictor.module(tensor)
            torch.cuda.synchronize()
            nvtx.range_push(name)
            cuda.cuProfilerStart()
            predictor.module(tensor)
            torch.cuda.synchronize()
            cuda.cuProfilerStop()
            nvtx.range_pop()
        predictor.close()
        del tensor
        torch.cuda.empty_cache()
        print(name, size, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
