"""What inline code says by the package `nvtx`: heard in the code's own process, call by call.

Its decorated functions and the domains it gets are heard, too: this is there before the code is.
A range that one call begins and another ends is not kept.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from mlscope.tracing.application import Notebook
from services.agent.collectors.nvtx_domains import listen_to_names, listening_to_domains
from services.agent.collectors.nvtx_ears import Ears, plain
from services.agent.collectors.nvtx_package import listen_to_decorators, listening_to_package

_PACKAGE = "nvtx.nvtx"
_MOST_NOTES = 1000


class Ranges:
    """The process's ears, made when the package is imported and the code has not run."""

    def __init__(self) -> None:
        self._ears = Ears(Notebook())
        if _PACKAGE in sys.modules:
            listen_to_decorators(self._ears)
            listen_to_names()

    @contextlib.contextmanager
    def heard(self) -> Iterator[list[Any]]:
        """Listen; what was said is then in the list, as rows and how many ranges did not end.

        A row has name, start (CLOCK_MONOTONIC ns), duration (ns, -1 of a mark), attributes.
        """
        told: list[Any] = []
        self._ears.open()
        try:
            with listening_to_package(self._ears), listening_to_domains(self._ears):
                yield told
        finally:
            notes, _, unended = self._ears.close()
            rows = [
                [each.name, each.start_ns, each.duration_ns, plain(each.attributes)]
                for each in notes[:_MOST_NOTES]
            ]
            told += [rows, unended]
