"""Kineto: CUDA calls, kernels, copies and sets of a process that has torch, by torch's profiler.

Works for any CUDA code of the process. One session a block: opening one costs under a
millisecond, closing it about 10 ms and 2 us an event, outside the timed stretch. Events are read
as Kineto's own objects; torch's Python ones would cost 50 us each.
"""

import contextlib
import os
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
    collector = KinetoCollector(torch)
    collector.begin()
    collector.end()
    return collector


class KinetoCollector:
    """One session of torch's profiler a block, with CUDA activities alone."""

    name = "kineto"
    level = Level.SYSTEM

    def __init__(self, torch: Any, claim: Claim = CLAIM) -> None:
        self._torch, self._claim = torch, claim
        self._session: Any = None
        self._began: Pair = Pair(0, 0)

    def begin(self) -> None:
        """Start a session, and have CUPTI make its buffers. Raises CollectorUnavailable."""
        self._claim.take(self.name)
        profiler = self._torch.profiler
        try:
            self._session = profiler.profile(activities=[profiler.ProfilerActivity.CUDA])
            with _quiet():
                self._session.start()
            self._touch()
        except BaseException:
            self._claim.release(self.name)
            raise
        self._began = paired()

    def _touch(self) -> None:
        """Leave one record of each kind: the first of them waits milliseconds for a buffer."""
        self._torch.zeros(1, device="cuda")
        self._torch.cuda.synchronize()

    def end(self) -> Collected:
        """Wait for the GPU, end the session and return its spans."""
        session, self._session = self._session, None
        if session is None:
            return Collected(())
        try:
            self._torch.cuda.synchronize()
            ended = paired()
            with _quiet():
                session.stop()
        finally:
            self._claim.release(self.name)
        clock = ClockMap(self._began, ended)
        raw = session.profiler.kineto_results.events()
        collected = spans_of(_events(raw, self._torch), clock, native_threads())
        if abs(clock.drift_ns) <= DRIFT_NS:
            return collected
        note = f"the wall clock moved by {clock.drift_ns / 1e6:.2f} ms in a block"
        return Collected(collected.spans, collected.dropped, (*collected.notes, note))

    def close(self) -> None:
        """End a session that still goes on."""
        self.end()


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


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Kineto's start and stop lines from a worker's stderr; they heed no setting."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
