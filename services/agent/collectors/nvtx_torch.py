"""Listening to `torch.cuda.nvtx`: what it calls of PyTorch's library is heard for a while.

A build without CUDA has no NVTX, and these functions raise; while they are heard they do not.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from services.agent.collectors.nvtx_ears import Ears

_MODULE = "torch.cuda.nvtx"
_LIBRARY = "_nvtx"
_DOMAIN = ""
_SOURCE = {"source": "torch.cuda.nvtx"}


@contextlib.contextmanager
def listening_to_torch(ears: Ears) -> Iterator[None]:
    """Hear PyTorch's ranges, where it is loaded."""
    module = sys.modules.get(_MODULE)
    library = getattr(module, _LIBRARY, None)
    if module is None or library is None:
        yield
        return
    is_real = getattr(sys.modules.get("torch._C"), _LIBRARY, None) is library
    setattr(module, _LIBRARY, _Heard(ears, library, is_real=is_real))
    try:
        yield
    finally:
        setattr(module, _LIBRARY, library)


class _Heard:
    """PyTorch's library with ears; what is not named here is its own."""

    def __init__(self, ears: Ears, library: Any, *, is_real: bool) -> None:
        self._ears, self._library, self._is_real = ears, library, is_real

    def rangePushA(self, message: str) -> int:  # noqa: N802 - PyTorch's names
        """Begin a range; return how many were open around it."""
        depth = self._ears.push(message, _DOMAIN, _SOURCE)
        return self._library.rangePushA(message) if self._is_real else depth

    def rangePop(self) -> int:  # noqa: N802
        """End the innermost range."""
        depth = self._ears.pop(_DOMAIN)
        return self._library.rangePop() if self._is_real else depth

    def rangeStartA(self, message: str) -> int:  # noqa: N802
        """Begin a range that any thread may end."""
        number = self._library.rangeStartA(message) if self._is_real else 0
        return self._ears.start(message, _SOURCE, number)

    def rangeEnd(self, number: int) -> None:  # noqa: N802
        """End a range that was started."""
        self._ears.end(number)
        if self._is_real:
            self._library.rangeEnd(number)

    def markA(self, message: str) -> None:  # noqa: N802
        """Mark a point in time."""
        self._ears.mark(message, _SOURCE)
        if self._is_real:
            self._library.markA(message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)
