"""Who may use CUPTI, which serves one subscriber per process.

Drivers before r610 (and CUDA up to 13.2) allow one activity client: a second one silently takes the
records of the first.
"""

import os
import threading
from collections.abc import Mapping
from types import MappingProxyType

from services.agent.collectors.errors import CollectorUnavailable

_OUTSIDE: Mapping[str, str] = MappingProxyType(
    {
        "NSYS_PROFILING_SESSION_ID": "Nsight Systems (nsys)",
        "NV_NSIGHT_INJECTION_TRANSPORT_TYPE": "an Nsight tool",
        "NV_TPS_LAUNCH_TOKEN": "Nsight Compute (ncu)",
        "CUDA_INJECTION64_PATH": "a tool injected by CUDA_INJECTION64_PATH",
    }
)
"""Variables that a profiler sets in a process that it watches."""


class Claim:
    """The right of one collector to use CUPTI in this process."""

    def __init__(self) -> None:
        """Begin with nobody holding it."""
        self._lock = threading.Lock()
        self._holder = ""

    @property
    def holder(self) -> str:
        """Return who holds it, '' when nobody does."""
        return self._holder

    def take(self, collector: str, environment: Mapping[str, str] = os.environ) -> None:
        """Take it for a collector. Raises CollectorUnavailable where another or a tool holds it."""
        check_outside(collector, environment)
        if not self._lock.acquire(blocking=False):
            raise CollectorUnavailable(collector, f"the collector {self._holder} holds CUPTI")
        self._holder = collector

    def release(self, collector: str) -> None:
        """Give it back, where this collector holds it."""
        if self._holder == collector:
            self._holder = ""
            self._lock.release()


CLAIM = Claim()
"""The process's, which has one CUPTI."""


def outside_holder(environment: Mapping[str, str] = os.environ) -> str:
    """Return the outside profiler that watches this process, '' where none does."""
    return next((tool for name, tool in _OUTSIDE.items() if environment.get(name)), "")


def check_outside(collector: str, environment: Mapping[str, str] = os.environ) -> None:
    """Check that no outside profiler holds CUPTI. Raises CollectorUnavailable."""
    if outside := outside_holder(environment):
        raise CollectorUnavailable(collector, f"{outside} watches this process and holds CUPTI")
