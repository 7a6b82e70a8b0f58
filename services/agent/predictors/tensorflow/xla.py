"""Layers of a TensorFlow model that XLA runs: TensorFlow's profile of a block, by instruction."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from services.agent.predictors import Layer, Tensors
from services.agent.predictors.xla.layers import InstructionRun, layers_by_call
from services.agent.predictors.xla.profile import ProfiledBlock
from services.agent.predictors.xla.program import Program

_ENVIRONMENT, _START_TIME, _INSTRUCTION = "Task Environment", "profile_start_time", "hlo_op"


class XlaCapture:
    """One block of predict calls with TensorFlow's profiler on."""

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
        self.notes, self.predict = self._block.notes, self._block.predict
        # The GPU's activities are traced by a collector; CUPTI allows one client in a process.
        options = tf.profiler.experimental.ProfilerOptions(2, 0, 0)
        tf.profiler.experimental.start(self._block.folder, options)

    def close(self) -> list[list[Layer]]:
        """Stop the profiler and return the layers of each call; no file is left behind.

        Raises OSError when the profiler wrote nothing, ValueError for an incomplete profile.
        """
        tf.profiler.experimental.stop()
        with self._block.written() as (path, offset_ns):
            runs = list(instructions_in(path.read_bytes(), offset_ns))
        return layers_by_call(runs, self._block.calls, self._program)


def instructions_in(profile: bytes, offset_ns: int) -> Iterator[InstructionRun]:
    """Yield each instruction that ran, on CLOCK_MONOTONIC, where the epoch is `offset_ns`.

    Raises ValueError for a profile without its start time.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(profile)
    environment = next((plane for plane in space.planes if plane.name == _ENVIRONMENT), None)
    if environment is None:
        raise ValueError(f"TensorFlow's profile has no plane {_ENVIRONMENT!r}")
    began_ns = int(_stats(environment, environment)[_START_TIME]) - offset_ns
    lines = ((plane, line) for plane in space.planes for line in plane.lines)
    for line_number, (plane, line) in enumerate(lines, 1):
        for event in line.events:
            name = _stats(plane, event).get(_INSTRUCTION)
            if not name:
                continue
            start_ns = began_ns + line.timestamp_ns + event.offset_ps // 1000
            yield InstructionRun(str(name), start_ns, event.duration_ps // 1000, line_number)


def _stats(plane: Any, source: Any) -> dict[str, Any]:
    """Return the statistics of a plane or of one of its events (`source`), by name."""
    stats = {}
    for stat in source.stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind) if kind else ""
        value = plane.stat_metadata[value].name if kind == "ref_value" else value
        stats[plane.stat_metadata[stat.metadata_id].name] = value
    return stats
