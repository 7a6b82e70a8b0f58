"""NVTX ranges and marks that Python code makes: by the package `nvtx`, and by `torch.cuda.nvtx`.

No GPU, no profiler has to be there: while a block runs, what these modules call the NVTX library
with is heard as well, and put back afterwards; at other times they are as they were. Kept are
ranges that begin and end within a block, as spans of level application with domain, colour,
category and payload, and marks as markers.

Where no profiler is attached, `nvtx.annotate` gives a decorated function back as it is, and
`nvtx.get_domain` a domain that knows not even its name: such functions are heard, and domains that
were got before a block named, only where a request switches the collector on by name (`--collector
nvtx`), as it is then there before the model's code is. Inline code of a manifest is always heard so
(`inline_ranges`). What C and C++ do (the libraries of CUDA among them) is not heard: `nsys` sees
that, and `mlscope import` its export.
"""

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from mlscope.tracing.application import Notebook
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectorRequest
from services.agent.collectors.markers import span_of
from services.agent.collectors.nesting import nested
from services.agent.collectors.nvtx_domains import listen_to_names, listening_to_domains
from services.agent.collectors.nvtx_ears import Ears, plain
from services.agent.collectors.nvtx_package import listen_to_decorators, listening_to_package
from services.agent.collectors.nvtx_torch import listening_to_torch

OPTIONS: tuple[str, ...] = ()
_UNHEARD = "ranges of C and C++ are not heard: import an export of nsys"


def availability() -> Availability:
    """Say whether Python code here can make ranges."""
    found = [name for name in ("nvtx", "torch") if importlib.util.find_spec(name)]
    if not found:
        return Availability((), "neither the package nvtx nor PyTorch is installed")
    off = "NVTX_DISABLE is set: the package nvtx does nothing; " if _is_off() else ""
    return Availability((Level.APPLICATION,), f"{off}{_UNHEARD}")


def prepare(_: Mapping[str, Any]) -> None:
    """Import the package, where it is installed, and hear functions that it decorates from now."""
    if importlib.util.find_spec("nvtx") and not _is_off():
        listen_to_decorators(EARS)
        listen_to_names()


def open_collector(_: CollectorRequest) -> "NvtxCollector":
    """Open the worker's ears at each block."""
    return NvtxCollector(EARS)


_LISTENING = (listening_to_package, listening_to_domains, listening_to_torch)

EARS = Ears(Notebook())
"""The process's: decorated functions keep them."""


class NvtxCollector:
    """Hears NVTX while a block runs."""

    name = "nvtx"
    level = Level.APPLICATION

    def __init__(self, ears: Ears) -> None:
        self._ears = ears
        self._undo = list[Any]()

    def begin(self) -> None:
        """Listen to those of the modules that are loaded."""
        self._ears.open()
        self._undo = [listening(self._ears) for listening in _LISTENING]
        for each in self._undo:
            each.__enter__()

    def end(self) -> Collected:
        """Listen no more; return what was heard."""
        self._stop()
        heard, dropped, unended = self._ears.close()
        notes = (f"{unended} ranges did not end in their block",) if unended else ()
        return Collected(
            nested([span_of(each, plain(each.attributes)) for each in heard]), dropped, notes
        )

    def close(self) -> None:
        """Listen no more where a block was left in its middle."""
        self._stop()
        self._ears.close()

    def _stop(self) -> None:
        while self._undo:
            self._undo.pop().__exit__(None, None, None)


def _is_off() -> bool:
    return bool(os.environ.get("NVTX_DISABLE"))
