"""The metrics that Nsight Compute is to count. Pure.

More metrics need more passes, and each pass runs every kernel again: memory, occupancy and time
take one pass on an H200, the three fp32 counters two more, each tensor type about one.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

READ_BYTES = "dram__bytes_read.sum"
WRITTEN_BYTES = "dram__bytes_write.sum"
#: achieved occupancy, percent of the warps a multiprocessor holds
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
DURATION = "gpu__time_duration.sum"
_SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_TENSOR = "sm__ops_path_tensor_src_{}.sum"

_TENSOR_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "float32": "tf32_dst_fp32",
        "float16": "fp16",
        "bfloat16": "bf16_dst_fp32",
        "int8": "int8",
        "float64": "fp64",
    }
)
_HALF = ("float16", "bfloat16")


def metrics_for(precision: str, requested: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the usual metrics for a model of a precision, then the `requested` ones."""
    prefixes = ["f"]
    if any(half in precision for half in _HALF):
        prefixes.append("h")
    if "float64" in precision:
        prefixes.append("d")
    operations = ("add", "mul", "fma")
    scalar = [_SASS.format(prefix + name) for prefix in prefixes for name in operations]
    tensor = [_TENSOR.format(kind) for name, kind in _TENSOR_TYPES.items() if name in precision]
    usual = (READ_BYTES, WRITTEN_BYTES, OCCUPANCY, DURATION, *scalar, *tensor)
    return tuple(dict.fromkeys((*usual, *requested)))
