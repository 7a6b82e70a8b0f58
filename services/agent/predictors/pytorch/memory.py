"""Measure what the operators of one uncounted PyTorch call allocate.

PyTorch's older profiler records every allocation of its thread, on the host and (in blocks of the
caching allocator) on a CUDA device, in order with marks that are set around operators. Kineto could
do the same, but first loads Inductor for a second; and a process has only one, which may be in use.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch._C import _autograd

_MARK = "mlscope.operator."


class Allocations:
    """Bytes allocated within marks, including those that are freed there again."""

    def __init__(self) -> None:
        #: bytes by mark; None where this PyTorch cannot measure them
        self._bytes: dict[int, int] | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record the allocations of this thread within a `with` block.

        `within` returns them afterwards. It is no error where this PyTorch, or another profiler,
        does not allow it.
        """
        is_recording = True
        try:
            from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

            # Memory alone: no shapes, stacks, FLOPs or modules.
            settings = ProfilerConfig(
                ProfilerState.CPU, False, True, False, False, False, _ExperimentalConfig()
            )
            _autograd._enable_profiler_legacy(settings)  # noqa: SLF001
        except (ImportError, AttributeError, TypeError, RuntimeError):
            is_recording = False
        try:
            yield
        finally:
            if is_recording:
                threads = _autograd._disable_profiler_legacy()  # noqa: SLF001
                self._bytes = sum(map(_bytes_in_thread, threads), Counter())

    def mark(self, number: int) -> AbstractContextManager[Any]:
        """Count what is allocated within a `with` block for `number`."""
        mark: AbstractContextManager[Any] = torch.autograd.profiler.record_function(
            f"{_MARK}{number}"
        )
        return mark

    def within(self, number: int) -> int | None:
        """Return the bytes allocated within marks of this number; None where unknown."""
        return None if self._bytes is None else self._bytes.get(number, 0)


def _bytes_in_thread(events: Iterable[Any]) -> Counter[int]:
    """Return the allocated bytes by mark, from a thread's events of the profiler in order."""
    allocated: Counter[int] = Counter()
    #: those that events are within, from outside in; None outside of all
    marks: list[int | None] = [None]
    for event in events:
        kind, mark = event.kind(), marks[-1]
        if kind == "push":
            name = event.name()
            marks.append(int(name.removeprefix(_MARK)) if name.startswith(_MARK) else mark)
        if kind == "pop" and len(marks) > 1:
            marks.pop()
        if kind == "memory_alloc" and mark is not None:
            allocated[mark] += max(event.cpu_memory_usage(), 0)
            allocated[mark] += max(event.cuda_memory_usage(), 0)
    return allocated
