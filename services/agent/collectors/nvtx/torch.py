"""Recording of `torch.cuda.nvtx`, by wrappers around its public functions.

A build of PyTorch without CUDA has no NVTX, and these functions raise; while they are wrapped they
record and do not raise. `torch.cuda.nvtx.range` calls them, so it is recorded too.
"""

import functools
import sys
from typing import Any

from services.agent.collectors.nvtx.recorder import RangeRecorder
from services.agent.collectors.nvtx.wrapping import Replacements

_DOMAIN = ""
_ATTRIBUTES = {"source": "torch.cuda.nvtx"}


class TorchWrappers:
    """The wrappers around the functions of `torch.cuda.nvtx`, while a block runs."""

    def __init__(self, recorder: RangeRecorder) -> None:
        self._recorder = recorder
        self._replacements = Replacements()

    def install(self) -> None:
        """Wrap the functions until `remove`, where PyTorch is loaded."""
        module = sys.modules.get("torch.cuda.nvtx")
        torch = sys.modules.get("torch")
        if module is None or torch is None:
            return
        for name, wrapper in self._wrappers(module, torch.backends.cuda.is_built()).items():
            self._replacements.put(module, name, wrapper)

    def remove(self) -> None:
        """Put back the originals."""
        self._replacements.undo()

    def _wrappers(self, module: Any, is_built: bool) -> dict[str, Any]:
        """Return the wrappers by name; without CUDA (`is_built`) they call no original."""
        recorder = self._recorder
        real_push, real_pop, real_mark = module.range_push, module.range_pop, module.mark
        real_start, real_end = module.range_start, module.range_end

        @functools.wraps(real_push)
        def range_push(msg: str) -> int:
            depth = recorder.push(msg, _DOMAIN, _ATTRIBUTES)
            return real_push(msg) if is_built else depth

        @functools.wraps(real_pop)
        def range_pop() -> int:
            depth = recorder.pop(_DOMAIN)
            return real_pop() if is_built else depth

        @functools.wraps(real_start)
        def range_start(msg: str) -> int:
            return recorder.start(msg, _ATTRIBUTES, real_start(msg) if is_built else 0)

        @functools.wraps(real_end)
        def range_end(range_id: int) -> None:
            recorder.end(range_id)
            if is_built:
                real_end(range_id)

        @functools.wraps(real_mark)
        def mark(msg: str) -> None:
            recorder.mark(msg, _ATTRIBUTES)
            if is_built:
                real_mark(msg)

        wrappers = (range_push, range_pop, range_start, range_end, mark)
        return {wrapper.__name__: wrapper for wrapper in wrappers}
