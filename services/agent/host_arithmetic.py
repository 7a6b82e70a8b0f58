"""Products of few bits on the host with PyTorch: what NumPy multiplies number by number.

Only what the processor has instructions for: elsewhere libraries turn such numbers into float32,
or go through them one by one, and what they reach then is no roof of anything.
"""

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

INSTRUCTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "bfloat16": ("avx512_bf16", "amx_bf16", "bf16"),
        "float16": ("avx512_fp16", "amx_fp16", "asimdhp"),
        "int8": ("avx512_vnni", "avx_vnni", "amx_int8", "i8mm"),
    }
)
"""Of /proc/cpuinfo, x86's and Arm's: one of them multiplies vectors or tiles of such numbers."""
SIZES = (512, 1024)
"""Rows and columns of factors: the better of them counts."""
_CPU_FACTS = Path("/proc/cpuinfo")
_LABELS = ("flags", "Features")

Act = Callable[[], object]


def why_not(precision: str, facts: Path = _CPU_FACTS) -> str:
    """Return why a precision has no peak here that could be measured; '' where it has."""
    wanted = INSTRUCTIONS[precision]
    if not instructions_in(facts) & {*wanted}:
        return f"this processor multiplies no {precision}: it has none of {', '.join(wanted)}"
    if importlib.util.find_spec("torch") is None:
        return "PyTorch, which would multiply them, is not installed"
    return ""


def instructions_in(facts: Path) -> frozenset[str]:
    """Return the processor's instruction sets as the system names them, none where it is silent."""
    try:
        lines = facts.read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    told = (line.partition(":") for line in lines)
    return frozenset(next((rest.split() for name, _, rest in told if name.strip() in _LABELS), ()))


def products(precision: str, size: int, threads: int) -> list[Act]:
    """Return what multiplies matrices of random numbers, one a thread.

    Each must have a PyTorch of one thread (OMP_NUM_THREADS). Raises ImportError, OSError,
    RuntimeError.
    """
    import torch

    if precision == "int8":
        left, right = (torch.randint(-128, 128, (size, size), dtype=torch.int8) for _ in range(2))
        # As in a layer, whose weights lie by columns.
        return [_whole(torch, left, right.t())] * threads
    kind = getattr(torch, precision)
    left, right = (torch.randn((size, size)).to(kind) for _ in range(2))
    return [_real(torch, left, right) for _ in range(threads)]


def _whole(torch: Any, left: Any, right: Any) -> Act:
    def act() -> None:
        torch._int_mm(left, right)  # noqa: SLF001 - no public product of int8

    return act


def _real(torch: Any, left: Any, right: Any) -> Act:
    made = torch.empty_like(left)

    def act() -> None:
        torch.mm(left, right, out=made)

    return act
