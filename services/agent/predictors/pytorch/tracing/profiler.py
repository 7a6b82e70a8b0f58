"""Share PyTorch's profiler, of which a process has one, between watchers of host and device.

It reports the operators of compiled and scripted models (see `events.py`), and CUDA's calls and
kernels to the collector `kineto`. When both watch in one block, one session records the activities
of both. A session ends when a watcher begins or ends; each watcher gets the events of its own time.

A predictor that replays CUDA graphs also registers here how to call its model without them. A graph
is launched by one call, so only a call without it shows which layer launches which kernel.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile

from services.agent.predictors import LayerCapture, Tensors

Events = Sequence[Any]
"""Kineto's own events; creating torch's Python ones takes 50 us each."""


class SharedProfiler:
    """One profiler session at a time, for two watchers."""

    def __init__(self, device: ProfilerActivity = ProfilerActivity.CUDA) -> None:
        """Begin without watchers; `device` is the activity that a device's watcher records."""
        self._device = device
        #: begins a capture of calls that replay no graph; None where none is replayed
        self.unreplayed: Unreplayed | None = None
        self._session: Any = None
        #: events of each watcher so far; None while it does not watch
        self._host_events: list[Any] | None = None
        self._device_events: list[Any] | None = None

    def watch_host(self) -> None:
        """Begin to record operators of all threads, as pipeline steps have threads of their own."""
        self._stop()
        self._host_events = []
        self._start()

    def watch_device(self) -> None:
        """Begin to record device work."""
        self._stop()
        self._device_events = []
        self._start()

    def device_events(self) -> Events:
        """End the session and return its events since `watch_device`.

        A watcher of the host gets no further events, as its block is over as well.
        """
        self._stop()
        events, self._device_events = self._device_events, None
        return events or ()

    def host_events(self) -> Events:
        """Return the events since `watch_host`; a device continues to be watched."""
        self._stop()
        events, self._host_events = self._host_events, None
        if self._device_events is not None:
            self._start()
        return events or ()

    def _start(self) -> None:
        """Begin a session with the activities that are watched."""
        all_threads = _ExperimentalConfig(profile_all_threads=True)
        activities = [] if self._host_events is None else [ProfilerActivity.CPU]
        activities += [] if self._device_events is None else [self._device]
        session = profile(activities=set(activities), experimental_config=all_threads)
        with quiet():
            session.start()
        self._session = session

    def _stop(self) -> None:
        """End the session, if there is one, and give its events to the watchers."""
        session, self._session = self._session, None
        if session is None:
            return
        with quiet():
            session.stop()
        results = session.profiler.kineto_results
        events = [] if results is None else results.events()
        for watched in (self._host_events, self._device_events):
            if watched is not None:
                watched.extend(events)


Unreplayed = Callable[[SharedProfiler], tuple[LayerCapture, Tensors]]
"""From a profiler for its use alone to a capture that may use it, and a batch for its calls.

Raises PredictFailed.
"""

PROFILER = SharedProfiler()
"""The one of this process."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide Kineto's start and stop messages, which no setting turns off, from stderr."""
    stderr = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)
