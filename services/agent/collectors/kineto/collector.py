"""Kineto: CUDA calls, kernels, copies and sets of a process that has torch, by torch's profiler.

Works for any CUDA code of the process. There is one session per block, shared with a predictor that
reads operators from it: opening one takes under a millisecond, closing it about 10 ms and 2 us per
event, outside the timed part. Where CUDA graphs are replayed, one call without them is recorded
after the first block, for the layers of their kernels.
"""

import sys
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from schemas.level import Level
from services.agent.collectors import (
    Availability,
    Collected,
    CollectorRequest,
)
from services.agent.collectors.cupti.claim import CLAIM, Claim, check_outside, outside_holder
from services.agent.collectors.cupti.clock import ClockMap, Pair
from services.agent.collectors.cupti.pairing import paired
from services.agent.collectors.cupti.threads import native_threads
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.collectors.kineto.events import Event, spans_of
from services.agent.collectors.kineto.without_graph import spans_without_graph

OPTIONS: tuple[str, ...] = ()
DRIFT_NS = 100_000
"""A wall clock that moved more than this within a block is noted."""


def availability() -> Availability:
    """Return level system where torch can trace a GPU; torch is not imported for this."""
    try:
        torch_version = version("torch")
    except PackageNotFoundError:
        return Availability((), "PyTorch is not installed")
    if torch_version.endswith("+cpu"):
        return Availability((), f"PyTorch {torch_version} has no CUDA")
    if outside := outside_holder():
        return Availability((), f"{outside} watches this process and holds CUPTI")
    torch = sys.modules.get("torch")
    if torch is not None and not torch.cuda.is_available():
        return Availability((), "PyTorch sees no GPU")
    return Availability((Level.SYSTEM,), devices=("gpu",), frameworks=("pytorch",))


def open_collector(request: CollectorRequest) -> "KinetoCollector":  # noqa: ARG001
    """Open Kineto, and start CUPTI once, which is slow. Raises CollectorUnavailable."""
    import torch  # only where PyTorch is used

    check_outside("kineto")
    if not torch.cuda.is_available():
        raise CollectorUnavailable("kineto", "PyTorch sees no GPU")
    from services.agent.predictors.pytorch.tracing.profiler import PROFILER

    collector = KinetoCollector(torch, PROFILER)
    collector.begin()
    collector.end(is_warmup=True)
    return collector


class KinetoCollector:
    """One session of torch's profiler per block, with CUDA's activities."""

    name = "kineto"
    level = Level.SYSTEM

    def __init__(self, torch: Any, profiler: Any, claim: Claim = CLAIM) -> None:
        """Take torch and its shared profiler (`pytorch.profiler.SharedProfiler`).

        `claim` says which collector of the process has CUPTI's records.
        """
        self._torch, self._profiler, self._claim = torch, profiler, claim
        self._is_on = self._has_call_without_graph = False
        self._began: Pair = Pair(0, 0)

    def begin(self) -> None:
        """Start a session, and have CUPTI allocate its buffers. Raises CollectorUnavailable."""
        self._claim.take(self.name)
        with ExitStack() as undo:
            undo.callback(self._claim.release, self.name)
            self._profiler.watch_device()
            self._fill_first_buffer()
            undo.pop_all()
        self._is_on = True
        self._began = paired()

    def end(self, *, is_warmup: bool = False) -> Collected:
        """Wait for the GPU, end the session and return its spans; `is_warmup`: of no block."""
        if not self._is_on:
            return Collected()
        self._is_on = False
        try:
            collected = self._end_session(self._profiler)
            if is_warmup or self._has_call_without_graph or self._profiler.unreplayed is None:
                return collected
            self._has_call_without_graph = True
            extra = self._call_without_graph()
        finally:
            self._claim.release(self.name)
        return Collected(
            (*collected.spans, *extra.spans),
            collected.dropped + extra.dropped,
            (*collected.notes, *extra.notes),
        )

    def close(self) -> None:
        """End a session that is still open."""
        self.end(is_warmup=True)

    def _fill_first_buffer(self) -> None:
        """Leave one record of each kind: the first of them waits milliseconds for a buffer."""
        self._torch.zeros(1, device="cuda")
        self._torch.cuda.synchronize()

    def _end_session(self, profiler: Any) -> Collected:
        """End a profiler's session and return its spans."""
        self._torch.cuda.synchronize()
        ended = paired()
        host = self._torch.autograd.DeviceType.CPU
        events = [
            Event(
                name=event.name(),
                is_device=event.device_type() != host,
                start_ns=event.start_ns(),
                duration_ns=event.duration_ns(),
                correlation=event.correlation_id(),
                device=event.device_index(),
                resource=event.device_resource_id(),
                is_annotation=event.is_user_annotation(),
            )
            for event in profiler.device_events()
        ]
        clock = ClockMap(self._began, ended)
        collected = spans_of(events, clock, native_threads())
        if abs(clock.drift_ns) <= DRIFT_NS:
            return collected
        note = f"the wall clock moved by {clock.drift_ns / 1e6:.2f} ms in a block"
        return Collected(collected.spans, collected.dropped, (*collected.notes, note))

    def _call_without_graph(self) -> Collected:
        """Return layers, launches and kernels of one call without its CUDA graphs."""
        profiler = type(self._profiler)()

        def begin() -> None:
            profiler.watch_device()
            self._fill_first_buffer()
            self._began = paired()

        return spans_without_graph(
            lambda: self._profiler.unreplayed(profiler),
            begin,
            lambda: self._end_session(profiler),
        )
