"""Matrix products below 32 bits on the host with PyTorch, which NumPy has no fast form of.

Only precisions that the processor has instructions for: for others, libraries convert to float32
or multiply one by one, and such a speed is no roof.
"""

import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from services.agent.machine.kernel_files import text_of

INSTRUCTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "bfloat16": ("avx512_bf16", "amx_bf16", "bf16"),
        "float16": ("avx512_fp16", "amx_fp16", "asimdhp"),
        "int8": ("avx512_vnni", "avx_vnni", "amx_int8", "i8mm"),
    }
)
"""Flags of /proc/cpuinfo on x86 and Arm: any of them multiplies vectors or tiles in a precision."""
SIZES = (512, 1024)
"""Rows and columns of the factors: the faster size counts."""
_CPU_FACTS = Path("/proc/cpuinfo")
_LABELS = ("flags", "Features")

Work = Callable[[], object]


def missing_reason(precision: str, facts: Path = _CPU_FACTS) -> str:
    """Return why the peak of a precision can't be measured here; '' where it can."""
    flags = INSTRUCTIONS[precision]
    if not instructions_in(facts) & {*flags}:
        return f"this processor can't multiply {precision}: it has none of {', '.join(flags)}"
    if importlib.util.find_spec("torch") is None:
        return "PyTorch, which would measure it, is not installed"
    return ""


def instructions_in(facts: Path) -> frozenset[str]:
    """Return the processor's instruction sets as the kernel names them, or none."""
    fields = (line.partition(":") for line in text_of(facts).splitlines())
    flags = (value.split() for name, _, value in fields if name.strip() in _LABELS)
    return frozenset(next(flags, ()))


def products(precision: str, size: int, threads: int) -> list[Work]:
    """Return products of `size` x `size` matrices of random numbers in a precision.

    There are as many as `threads`, each with matrices of its own.
    Each needs a PyTorch of one thread (OMP_NUM_THREADS). Raises ImportError, OSError, RuntimeError.
    """
    import torch

    if precision == "int8":
        first, second = (torch.randint(-128, 128, (size, size), dtype=torch.int8) for _ in range(2))
        # As in a layer, whose weights lie by columns. There is no public product of int8.
        product = partial(torch._int_mm, first, second.t())  # noqa: SLF001
        return [product] * threads
    dtype = getattr(torch, precision)
    first, second = (torch.randn((size, size)).to(dtype) for _ in range(2))
    return [partial(torch.mm, first, second, out=torch.empty_like(first)) for _ in range(threads)]
