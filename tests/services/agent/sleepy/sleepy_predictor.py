"""An example of a predictor of one's own: it sleeps, and on demand fails, hangs or dies.

A package brings it in with an entry point (see `sleepy-1.0.dist-info/entry_points.txt`):

    [mlscope.predictors]
    sleepy = sleepy_predictor:open_model

Options: `predict_ms` (0), `opens_not`, `open_hangs`, and by number of the predict call, counted
from 0 with those of the warm-up: `fails_at`, `hangs_at`, `exits_at`, `dies_at` (SIGKILL),
`raises_at` (an error that is a bug), `starves_at` (for want of memory), `lost_from` (every call
from there on: its GPU is gone).

From the first call on, it holds `takes_bytes`, a temporary file of `writes_bytes`, and one of
`hides_bytes` that is deleted but open; `starts` processes sleep, once there is a file
`starts_with`.
"""

import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from schemas.level import Level
from services.agent.errors import OpenFailed, PredictFailed
from services.agent.predictors import Opened, OpenRequest, Predictor, TensorPlace, Tensors


def open_model(request: OpenRequest) -> Predictor:
    """Open nothing, at once. Raises OpenFailed when the options say so."""
    if request.options.get("opens_not"):
        raise OpenFailed(request.model.name, "asleep")
    while request.options.get("open_hangs"):
        time.sleep(1)
    return Sleepy(request)


class Sleepy:
    """Answers a batch with itself."""

    def __init__(self, request: OpenRequest) -> None:
        port = request.model.inputs[0]
        place = TensorPlace(port.layer_name, (request.batch_size, *port.shape[1:]), "float32")
        self._options = request.options
        self._calls = 0
        self.opened = Opened(
            framework="sleepy",
            framework_version="1.0",
            inputs=(place,),
            outputs=(place,),
            device="cpu",
            provider="",
            precision="float32",
            threads=1,
            options=dict(request.options),
            load_ns=0,
            first_run_ns=0,
            deepest_level=Level.MODEL,
        )

    def predict(self, inputs: Tensors) -> Tensors:
        """Sleep, then return what came."""
        call, self._calls = self._calls, self._calls + 1
        time.sleep(self._options.get("predict_ms", 0) / 1000)
        if call == self._options.get("fails_at"):
            raise PredictFailed("bad dream")
        if call >= self._options.get("lost_from", call + 1):
            raise PredictFailed("CUDA error: an illegal memory access was encountered")
        if call == self._options.get("raises_at"):
            raise RuntimeError("a bug")
        if call == self._options.get("starves_at"):
            raise MemoryError("no such room")
        if not call:
            self._held = b"x" * self._options.get("takes_bytes", 0)
            self._use_disk()
            threading.Thread(target=self._start_sleepers, daemon=True).start()
        if call == self._options.get("exits_at"):
            os._exit(3)
        if call == self._options.get("dies_at"):
            os.kill(os.getpid(), signal.SIGKILL)
        while call == self._options.get("hangs_at"):
            time.sleep(1)
        return inputs

    def _start_sleepers(self) -> None:
        while not Path(self._options.get("starts_with", "/")).exists():
            time.sleep(0.05)
        for _ in range(self._options.get("starts", 0)):
            subprocess.Popen(["sleep", "60"])

    def _use_disk(self) -> None:
        for name in ("writes_bytes", "hides_bytes"):
            if size_bytes := self._options.get(name, 0):
                descriptor, path = tempfile.mkstemp()
                os.posix_fallocate(descriptor, 0, size_bytes)
                if name == "hides_bytes":
                    Path(path).unlink()

    def close(self) -> None:
        """Wake up."""
