"""Kineto: CUDA calls, kernels, copies and sets of a process that has torch, by torch's profiler.

Works for any CUDA code of the process. One session a block, shared with a predictor that reads
operators from it: opening one costs under a millisecond, closing it about 10 ms and 2 us an event,
outside the timed stretch. Where CUDA graphs are replayed, one call without them is recorded after
the first block, for the layers of their kernels.
"""

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from schemas.level import Level
from services.agent.collectors import (
    Availability,
    Collected,
    CollectorRequest,
)
from services.agent.collectors.cupti_claim import CLAIM, Claim, check_outside, outside_holder
from services.agent.collectors.cupti_clock import ClockMap, Pair, paired
from services.agent.collectors.cupti_threads import native_threads
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.collectors.kineto_events import Event, spans_of
from services.agent.collectors.unreplayed import spans_without_graph

OPTIONS: tuple[str, ...] = ()
DRIFT_NS = 100_000
"""A wall clock that moved more than this within a block is noted."""


def availability() -> Availability:
    """Say whether torch can trace a GPU here; without importing it where it is not loaded."""
    try:
        found = version("torch")
    except PackageNotFoundError:
        return Availability((), "PyTorch is not installed")
    if found.endswith("+cpu"):
        return Availability((), f"PyTorch {found} has no CUDA")
    if outside := outside_holder():
        return Availability((), f"{outside} watches this process and holds CUPTI")
    torch = sys.modules.get("torch")
    if torch is not None and not torch.cuda.is_available():
        return Availability((), "PyTorch sees no GPU")
    return Availability((Level.SYSTEM,), devices=("gpu",), frameworks=("pytorch",))


def open_collector(request: CollectorRequest) -> "KinetoCollector":  # noqa: ARG001
    """Open Kineto, and pay for CUPTI's first start here. Raises CollectorUnavailable."""
    import torch  # beside it nothing is paid where PyTorch is not used

    check_outside("kineto")
    if not torch.cuda.is_available():
        raise CollectorUnavailable("kineto", "PyTorch sees no GPU")
    from services.agent.predictors.pytorch_profiler import PROFILER

    collector = KinetoCollector(torch, PROFILER)
    collector.begin()
    collector.end(is_first=True)
    return collector


class KinetoCollector:
    """One session of torch's profiler a block, with CUDA's activities."""

    name = "kineto"
    level = Level.SYSTEM

    def __init__(self, torch: Any, profiler: Any, claim: Claim = CLAIM) -> None:
        """Take torch and its shared profiler (`pytorch_profiler.SharedProfiler`)."""
        self._torch, self._profiler, self._claim = torch, profiler, claim
        self._is_on = self._knows_graph = False
        self._began: Pair = Pair(0, 0)

    def begin(self) -> None:
        """Start a session, and have CUPTI make its buffers. Raises CollectorUnavailable."""
        self._claim.take(self.name)
        try:
            self._profiler.watch_device()
            self._touch()
        except BaseException:
            self._claim.release(self.name)
            raise
        self._is_on = True
        self._began = paired()

    def _touch(self) -> None:
        """Leave one record of each kind: the first of them waits milliseconds for a buffer."""
        self._torch.zeros(1, device="cuda")
        self._torch.cuda.synchronize()

    def end(self, *, is_first: bool = False) -> Collected:
        """Wait for the GPU, end the session and return its spans; `is_first` of no block's."""
        if not self._is_on:
            return Collected()
        self._is_on = False
        try:
            collected = self._ended(self._profiler)
            if not is_first and not self._knows_graph and self._profiler.unreplayed is not None:
                self._knows_graph = True
                return _both(collected, self._without_graph())
        finally:
            self._claim.release(self.name)
        return collected

    def close(self) -> None:
        """End a session that still goes on."""
        self.end(is_first=True)

    def _ended(self, profiler: Any) -> Collected:
        """End a profiler's session and return its spans."""
        self._torch.cuda.synchronize()
        ended = paired()
        raw = profiler.device_events()
        clock = ClockMap(self._began, ended)
        collected = spans_of(_events(raw, self._torch), clock, native_threads())
        if abs(clock.drift_ns) <= DRIFT_NS:
            return collected
        note = f"the wall clock moved by {clock.drift_ns / 1e6:.2f} ms in a block"
        return Collected(collected.spans, collected.dropped, (*collected.notes, note))

    def _without_graph(self) -> Collected:
        """Return what one call without its CUDA graphs leaves: layers, launches and kernels."""
        alone = type(self._profiler)()

        def begin() -> None:
            alone.watch_device()
            self._touch()
            self._began = paired()

        return spans_without_graph(
            lambda: self._profiler.unreplayed(alone), begin, lambda: self._ended(alone)
        )


def _both(one: Collected, other: Collected) -> Collected:
    spans, notes = (*one.spans, *other.spans), (*one.notes, *other.notes)
    return Collected(spans, one.dropped + other.dropped, notes)


def _events(raw: Any, torch: Any) -> Iterator[Event]:
    """Yield Kineto's events with what is used of them."""
    host = torch.autograd.DeviceType.CPU
    for event in raw:
        yield Event(
            name=event.name(),
            is_device=event.device_type() != host,
            start_ns=event.start_ns(),
            duration_ns=event.duration_ns(),
            correlation=event.correlation_id(),
            device=event.device_index(),
            resource=event.device_resource_id(),
            is_annotation=event.is_user_annotation(),
        )
