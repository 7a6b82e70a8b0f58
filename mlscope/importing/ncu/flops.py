"""Floating-point operations of a kernel from its counters. Pure.

FLOPs = fadd + fmul + 2 ffma (threads of executed instructions, predicated on, in single, half and
double precision) + operations of the tensor pipes. Chips from compute capability 8.0 on count the
operations of the tensor path (`sm__ops_path_tensor_src_…`, as in Nsight Compute's tensor roofline):
exact for every shape of instruction. Where only instructions are counted, each is assumed to be one
warp's HMMA m16n8k8 (see `INSTRUCTION_FLOPS`), and the method says that it is an estimate: a Hopper
wgmma does 8 to 64 times as much.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_TENSOR_OPERATIONS = "sm__ops_path_tensor_src_"
_TENSOR_INSTRUCTIONS = "sm__inst_executed_pipe_tensor.sum"

SCALAR_FLOPS: Mapping[str, int] = MappingProxyType(
    {
        **{_SASS.format(f"{kind}add"): 1 for kind in "fd"},
        **{_SASS.format(f"{kind}mul"): 1 for kind in "fd"},
        **{_SASS.format(f"{kind}fma"): 2 for kind in "fd"},
        # half instructions work on pairs (HADD2, HMUL2, HFMA2)
        _SASS.format("hadd"): 2,
        _SASS.format("hmul"): 2,
        _SASS.format("hfma"): 4,
    }
)
"""FLOPs of one thread's instruction, by counter."""

INSTRUCTION_FLOPS = 2048
"""2 x 16 x 8 x 8: the tf32 product of one warp (PTX ISA, mma.m16n8k8)."""


@dataclass(frozen=True, slots=True)
class Flops:
    """Operations of one kernel; `method` is counted, or estimated from instructions."""

    value: float
    method: str


def flops_of(counters: Mapping[str, float]) -> Flops | None:
    """Return a kernel's FLOPs; None where it has none of the counters that they need."""
    scalar = [counters[name] * flops for name, flops in SCALAR_FLOPS.items() if name in counters]
    tensor = [
        value
        for name, value in counters.items()
        if name.startswith(_TENSOR_OPERATIONS) and name.endswith(".sum")
    ]
    if tensor:
        return Flops(sum(scalar) + sum(tensor), "counted")
    instructions = counters.get(_TENSOR_INSTRUCTIONS)
    if instructions is None:
        return Flops(sum(scalar), "counted, without tensor pipes") if scalar else None
    method = "estimated from tensor instructions" if instructions else "counted"
    return Flops(sum(scalar) + instructions * INSTRUCTION_FLOPS, method)
