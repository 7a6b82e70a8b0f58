"""NVTX ranges and marks that Python code makes: by the package `nvtx`, and by `torch.cuda.nvtx`.

Needs neither a GPU nor a profiler: while a block runs, the public functions of these modules are
wrapped (`package`, `domains`, `torch`); afterwards the originals are put back. Ranges that begin
and end within a block become spans of level application with domain, colour, category and payload;
marks become markers.

A request that switches the collector on by name (`--collector nvtx`), and inline code of a
manifest, have the package wrapped before the model's code imports it. Only then are these
recorded, where no profiler is attached:

- functions decorated by `nvtx.annotate`, which otherwise returns the plain function,
- the names of domains, and attributes from `Domain.get_event_attributes`,
- functions imported by name, such as `from nvtx import push_range`.

Functions of `torch.cuda.nvtx` are recorded where they are called by the module's name
(`torch.cuda.nvtx.range_push(…)`), not where they were imported by their own.

Ranges of C and C++ code (CUDA's libraries among them) are not recorded: nsys records them, and
`mlscope import` reads its export.
"""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from mlscope.tracing.application import UserSpanBuffer
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectorRequest
from services.agent.collectors.markers import span_of
from services.agent.collectors.nesting import nested
from services.agent.collectors.nvtx.package import PackageWrappers
from services.agent.collectors.nvtx.recorder import RangeRecorder, json_attributes
from services.agent.collectors.nvtx.torch import TorchWrappers

OPTIONS: tuple[str, ...] = ()

RANGE_RECORDER = RangeRecorder(UserSpanBuffer())
"""The process's: permanent wrappers refer to it."""

_PACKAGE, _TORCH = PackageWrappers(RANGE_RECORDER), TorchWrappers(RANGE_RECORDER)


def availability() -> Availability:
    """Return level application where a Python package that makes ranges is installed."""
    if not (find_spec("nvtx") or find_spec("torch")):
        return Availability((), "neither the package nvtx nor PyTorch is installed")
    disabled = "NVTX_DISABLE is set, so the package nvtx does nothing; " if _is_disabled() else ""
    reason = "ranges of C and C++ code are not recorded: import an export of nsys"
    return Availability((Level.APPLICATION,), disabled + reason)


def prepare(_: Mapping[str, Any]) -> None:
    """Wrap the package `nvtx`, where it is installed, before the model's code imports it."""
    if find_spec("nvtx") and not _is_disabled():
        _PACKAGE.install_permanently()


def open_collector(_: CollectorRequest) -> "NvtxCollector":
    """Return a collector that records the ranges of this process."""
    return NvtxCollector()


class NvtxCollector:
    """Records NVTX ranges and marks while a block runs."""

    name = "nvtx"
    level = Level.APPLICATION

    def begin(self) -> None:
        """Wrap the modules that are loaded, and record."""
        RANGE_RECORDER.open()
        _PACKAGE.install()
        _TORCH.install()

    def end(self) -> Collected:
        """Put the original functions back; return the ranges and marks."""
        self._remove_wrappers()
        recorded, dropped, unended = RANGE_RECORDER.close()
        notes = (f"{unended} ranges did not end in their block",) if unended else ()
        spans = nested(
            [span_of(user_span, json_attributes(user_span.attributes)) for user_span in recorded]
        )
        return Collected(spans, dropped, notes)

    def close(self) -> None:
        """Stop recording where a block was interrupted."""
        self._remove_wrappers()
        RANGE_RECORDER.close()

    def _remove_wrappers(self) -> None:
        _TORCH.remove()
        _PACKAGE.remove()


def _is_disabled() -> bool:
    return bool(os.environ.get("NVTX_DISABLE"))
