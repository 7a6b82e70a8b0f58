"""What operators of one uncounted PyTorch call allocate, as PyTorch's allocators tell it.

PyTorch's older profiler hears every allocation on its thread, on the host and (in blocks of the
caching allocator) on a CUDA device, in order with marks that are set around operators. Kineto's
would do, too, but loads Inductor for a second first, and a process has one, which may be busy.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch._C import _autograd

_MARK = "mlscope.operator."


class Allocations:
    """Bytes allocated within marks, what is freed within them again too: no net figure."""

    def __init__(self) -> None:
        #: bytes by mark; None where this PyTorch does not tell
        self._bytes: dict[int, int] | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hear allocations of this thread; a PyTorch or moment that does not allow it is no error.

        They are known once it is over.
        """
        heard = _begin()
        try:
            yield
        finally:
            if heard:
                self._bytes = _summed(_autograd._disable_profiler_legacy())  # noqa: SLF001

    def mark(self, number: int) -> AbstractContextManager[Any]:
        """Let what is allocated in it count for a number."""
        return torch.autograd.profiler.record_function(f"{_MARK}{number}")

    def within(self, numbers: Iterable[int]) -> int | None:
        """Return the bytes allocated within marks of these numbers; None where that is unknown."""
        if self._bytes is None:
            return None
        return sum(self._bytes.get(number, 0) for number in numbers)


def _begin() -> bool:
    """Begin to hear; return whether this PyTorch, and who watches already, let one."""
    try:
        from torch._C._profiler import (
            ProfilerConfig,
            ProfilerState,
            _ExperimentalConfig,
        )

        # Neither shapes, nor stacks, nor FLOPs, nor modules.
        more = (False, False, False, _ExperimentalConfig())
        settings = ProfilerConfig(ProfilerState.CPU, False, True, *more)
        _autograd._enable_profiler_legacy(settings)  # noqa: SLF001
    except (ImportError, AttributeError, TypeError, RuntimeError):
        return False
    return True


def _summed(threads: Iterable[Iterable[Any]]) -> dict[int, int]:
    """Return bytes by mark; events of a thread nest as they come."""
    found: dict[int, int] = {}
    for events in threads:
        inside: list[int | None] = [None]
        for event in events:
            kind = event.kind()
            if kind == "push":
                name = event.name()
                number = int(name.removeprefix(_MARK)) if name.startswith(_MARK) else inside[-1]
                inside.append(number)
            elif kind == "pop" and len(inside) > 1:
                inside.pop()
            elif kind == "memory_alloc" and (number := inside[-1]) is not None:
                grown = max(event.cpu_memory_usage(), 0) + max(event.cuda_memory_usage(), 0)
                found[number] = found.get(number, 0) + grown
    return found
