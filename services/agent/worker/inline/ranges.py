"""Records the NVTX ranges of inline code, in the code's own process, call by call.

The recorder is installed before the code runs, so that decorated functions and domains are recorded
as well. A range that begins in one call and ends in another is not kept.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from mlscope.tracing.application import UserSpanBuffer
from services.agent.collectors.nvtx.package import PackageWrappers
from services.agent.collectors.nvtx.recorder import RangeRecorder, json_attributes

_MOST_RANGES = 1000


class NvtxRanges:
    """The recorder of the process, created after `nvtx` is imported and before the code runs."""

    def __init__(self) -> None:
        self._recorder = RangeRecorder(UserSpanBuffer())
        if "nvtx" in sys.modules:
            PackageWrappers(self._recorder).install_permanently()

    @contextlib.contextmanager
    def recording(self) -> Iterator[list[Any]]:
        """Record ranges; afterwards the list has their rows, and how many ranges did not end.

        A row has name, start (CLOCK_MONOTONIC ns), duration (ns, -1 for a mark), attributes.
        """
        result: list[Any] = []
        self._recorder.open()
        try:
            yield result
        finally:
            ranges, _, unended = self._recorder.close()
            rows = [
                [span.name, span.start_ns, span.duration_ns, json_attributes(span.attributes)]
                for span in ranges[:_MOST_RANGES]
            ]
            result += [rows, unended]
