"""Layers of JAX: XLA's own profile of a block; instructions are named by the model's scopes."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import jax
from jax.profiler import ProfileData

from services.agent.predictors import Layer, Tensors
from services.agent.predictors.xla.graphs import COMMAND_BUFFER
from services.agent.predictors.xla.layers import InstructionRun, layers_by_call, with_graphed
from services.agent.predictors.xla.profile import ProfiledBlock
from services.agent.predictors.xla.program import Program

_GRAPHED_NOTE = (
    "instructions in a command buffer (a CUDA graph) have no host time of their own and show 0; "
    "their kernels are matched by name and order"
)
_DEVICE = "/device:"
_CALL = "PjitFunction"
_START_TIME = "profile_start_time"
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
        """Predict each batch of `warmed_with` once, uncounted, and start the profiler.

        `program` describes the instructions; `predict` runs the model; the profile is written
        into a folder of `scratch` until `close`. Raises PredictFailed.
        """
        self._program = program
        self._block = ProfiledBlock(predict, warmed_with, scratch)
        self.notes = self._block.notes
        self._thread = 0
        options = jax.profiler.ProfileOptions()
        options.host_tracer_level = 2
        options.python_tracer_level = 0
        # The GPU's activities are traced by a collector; CUPTI allows one client in a process.
        options.device_tracer_level = 0
        jax.profiler.start_trace(self._block.folder, profiler_options=options)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        self._thread = threading.get_native_id()
        return self._block.predict(inputs)

    def close(self) -> list[list[Layer]]:
        """Stop the profiler and return the layers of each call; no file is left behind.

        Raises OSError when the profiler wrote nothing, ValueError for an incomplete profile.
        """
        jax.profiler.stop_trace()
        with self._block.written() as (path, offset_ns):
            profile = ProfileData.from_file(str(path))
            runs = instructions_in(profile, offset_ns, self._program, self._thread)
        all_runs = with_graphed(runs, self._program)
        if len(all_runs) > len(runs):
            self.notes.append(_GRAPHED_NOTE)
        return layers_by_call(all_runs, self._block.calls, self._program)


def instructions_in(
    profile: ProfileData, offset_ns: int, program: Program, thread: int = 0
) -> list[InstructionRun]:
    """Return each instruction that ran, on the clock that predict calls are stamped with.

    `offset_ns` is the epoch on CLOCK_MONOTONIC. On a CPU instructions run on the host. For a GPU
    the result has the host's launches of the instructions of `program`; without any, the runs on
    the device itself. A line of the profile has no thread number: the line of the predict calls
    becomes `thread`, so that launches are found in their calls. Raises ValueError for a profile
    without its start time.
    """
    environment = profile.find_plane_with_name(_ENVIRONMENT)
    stats = dict(environment.stats) if environment is not None else {}
    if _START_TIME not in stats:
        raise ValueError(f"XLA's profile has no {_START_TIME}")
    began_ns = int(stats[_START_TIME]) - offset_ns
    on_host, on_device = list[InstructionRun](), list[InstructionRun]()
    launches, calling_lines = list[InstructionRun](), set[int]()
    lines = ((plane, line) for plane in profile.planes for line in plane.lines)
    events = (
        (number, plane.name.startswith(_DEVICE), event)
        for number, (plane, line) in enumerate(lines, 1)
        for event in line.events
    )
    for number, is_device, event in events:
        name, stats = event.name, dict(event.stats)
        times = (began_ns + round(event.start_ns), round(event.duration_ns))
        if "hlo_op" in stats:
            run = InstructionRun(str(stats["hlo_op"]), *times, number)
            (on_device if is_device else on_host).append(run)
            continue
        is_launch = program.has_instruction(name) or name.startswith(COMMAND_BUFFER)
        if is_launch and not is_device:
            launches.append(InstructionRun(name, *times, number))
        elif name.startswith(_CALL):
            calling_lines.add(number)
    launches = [
        replace(launch, line=thread) if launch.line in calling_lines else launch
        for launch in launches
    ]
    return on_host or launches or on_device
