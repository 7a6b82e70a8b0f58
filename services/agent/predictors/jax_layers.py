"""Layers of JAX: XLA's own profile of a block, its instructions named by the model's scopes."""

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
from jax.profiler import ProfileData

from mlscope.tracing.clock import epoch_offset_ns, now_ns
from services.agent.predictors import Layer, Tensors
from services.agent.predictors.xla_graphs import COMMAND_BUFFER
from services.agent.predictors.xla_layers import Ran, layers_by_call, with_graphed
from services.agent.predictors.xla_program import Program

_FUSED = "a layer is an instruction of XLA's, which may do the work of several of the model's"
_GRAPHED = (
    "instructions in a command buffer (a CUDA graph) have no time of their own on the host: 0; "
    "their kernels are told by name and order"
)
_DEVICE = "/device:"
_CALL = "PjitFunction"
_BEGAN = "profile_start_time"
_ENVIRONMENT = "Task Environment"


class ProfiledCapture:
    """One block of predict calls with XLA's profiler on."""

    def __init__(
        self,
        program: Program,
        predict: Callable[[Tensors], Tensors],
        warmed_with: Sequence[Tensors],
        scratch: Path,
    ) -> None:
        """Predict each batch once, uncounted, and begin. Raises PredictFailed."""
        self._program = program
        self._predict = predict
        self.notes: list[str] = [_FUSED]
        self._calls: list[tuple[int, int]] = []
        self._thread = 0
        for inputs in warmed_with:
            predict(inputs)
        self._folder = tempfile.TemporaryDirectory(dir=scratch, prefix="layers-")
        self._began_offset_ns = epoch_offset_ns()
        jax.profiler.start_trace(self._folder.name, profiler_options=_options())

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        began = now_ns()
        outputs = self._predict(inputs)
        self._calls.append((began, now_ns()))
        self._thread = threading.get_native_id()
        return outputs

    def close(self) -> list[list[Layer]]:
        """End the profile and return the layers of each call; leave no file."""
        jax.profiler.stop_trace()
        offset_ns = epoch_offset_ns()
        moved_ns = abs(offset_ns - self._began_offset_ns)
        self.notes.append(f"XLA's times were put on our clock to within {moved_ns + 1000} ns")
        try:
            found = next(Path(self._folder.name).rglob("*.xplane.pb"), None)
            if found is None:
                raise OSError("XLA's profiler wrote no file")
            profile = ProfileData.from_file(str(found))
            ran = instructions_in(profile, offset_ns, self._program, self._thread)
        finally:
            self._folder.cleanup()
        graphed = with_graphed(ran, self._program)
        if len(graphed) > len(ran):
            self.notes.append(_GRAPHED)
        return layers_by_call(graphed, self._calls, self._program)


def instructions_in(
    profile: ProfileData, offset_ns: int, program: Program, thread: int = 0
) -> list[Ran]:
    """Return each instruction that ran on the host; `offset_ns` is the epoch's on our clock.

    On a CPU they run there. Of a GPU the host's part is what launches them, in events that are
    named as they are; where neither is, what ran on the device itself. A line of the profile knows
    no number of its thread: that on which calls were made is `thread`, so that what they launched
    is found in them.
    """
    on_host, launching, on_device = list[Ran](), list[Ran](), list[Ran]()
    began_ns, calling = _began_ns(profile) - offset_ns, set[int]()
    for line, is_device, name, event in _events(profile):
        told = dict(event.stats)
        times = (began_ns + round(event.start_ns), round(event.duration_ns))
        if "hlo_op" in told:
            ran = Ran(str(told["hlo_op"]), *times, line)
            (on_device if is_device else on_host).append(ran)
        elif not is_device and (program.knows(name) or name.startswith(COMMAND_BUFFER)):
            launching.append(Ran(name, *times, line))
        elif name.startswith(_CALL):
            calling.add(line)
    launching = [replace(r, line=thread) if r.line in calling else r for r in launching]
    return on_host or launching or on_device


def _events(profile: ProfileData) -> Iterator[tuple[int, bool, str, Any]]:
    """Yield each event with its line's number, whether that is a device's, and its name."""
    line_number = 0
    for plane in profile.planes:
        is_device = plane.name.startswith(_DEVICE)
        for line in plane.lines:
            line_number += 1
            for event in line.events:
                yield line_number, is_device, event.name, event


def _began_ns(profile: ProfileData) -> int:
    plane = profile.find_plane_with_name(_ENVIRONMENT)
    told = dict(plane.stats) if plane is not None else {}
    if _BEGAN not in told:
        raise ValueError("XLA's profile does not say when it began")
    return int(told[_BEGAN])


def _options() -> jax.profiler.ProfileOptions:
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level = 2
    options.python_tracer_level = 0
    # A GPU's own records are a collector's: two of its clients in one process exclude each other.
    options.device_tracer_level = 0
    return options
