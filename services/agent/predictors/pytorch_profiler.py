"""PyTorch's profiler, of which a process has one: shared by who watches its host and its device.

Operators of compiled and scripted models come from it (`pytorch_events`), CUDA's calls and kernels
too (the collector `kineto`). Both may want it in one block: then one session has the activities of
both. A session ends when one begins or ends to watch; each has the events from its own time.

Here a predictor that replays CUDA graphs says, too, how its model is called without them: a graph
is launched by one call, so only such a call shows which layer launched which kernel.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile

from services.agent.predictors import LayerCapture, Tensors

Events = Sequence[Any]
"""Kineto's own events: torch's Python ones would cost 50 us each."""


class SharedProfiler:
    """One session at a time, for two watchers."""

    def __init__(self, device: ProfilerActivity = ProfilerActivity.CUDA) -> None:
        """Begin with nobody watching; `device` is what a device's watcher wants."""
        self._device = device
        #: begins a capture of calls that replay no graph; None where none is replayed
        self.unreplayed: Unreplayed | None = None
        self._session: Any = None
        #: what each watcher has until now; None while it does not watch
        self._of_host: list[Any] | None = None
        self._of_device: list[Any] | None = None

    def watch_host(self) -> None:
        """Begin to record operators, of every thread: a pipeline's steps run on their own."""
        self._stop()
        self._of_host = []
        self._start()

    def watch_device(self) -> None:
        """Begin to record device work."""
        self._stop()
        self._of_device = []
        self._start()

    def device_events(self) -> Events:
        """End the session and return what it had since the device was watched.

        A host that is watched still gets no more: its block is over as well.
        """
        self._stop()
        events, self._of_device = self._of_device, None
        return events or ()

    def host_events(self) -> Events:
        """Return what there was since the host was watched; a device is watched on."""
        self._stop()
        events, self._of_host = self._of_host, None
        if self._of_device is not None:
            self._start()
        return events or ()

    def _start(self) -> None:
        """Begin a session with the activities of who watches."""
        everywhere = _ExperimentalConfig(profile_all_threads=True)
        wanted = [] if self._of_host is None else [ProfilerActivity.CPU]
        wanted += [] if self._of_device is None else [self._device]
        session = profile(activities=set(wanted), experimental_config=everywhere)
        with quiet():
            session.start()
        self._session = session

    def _stop(self) -> None:
        """End the session, if there is one, and give its events to who watched."""
        session, self._session = self._session, None
        if session is None:
            return
        with quiet():
            session.stop()
        results = session.profiler.kineto_results
        events = [] if results is None else results.events()
        for watcher in (self._of_host, self._of_device):
            if watcher is not None:
                watcher.extend(events)


Unreplayed = Callable[[SharedProfiler], tuple[LayerCapture, Tensors]]
"""From a profiler of its own to a capture that may watch by it, and a batch to call with.

Raises PredictFailed.
"""

PROFILER = SharedProfiler()
"""The process's own."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
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
