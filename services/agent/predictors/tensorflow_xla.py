"""Layers of a TensorFlow model that XLA runs: TensorFlow's profile of a block, by instruction."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from mlscope.tracing.clock import epoch_offset_ns, now_ns
from services.agent.predictors import Layer, Tensors
from services.agent.predictors.xla_layers import Ran, layers_by_call
from services.agent.predictors.xla_program import Program

_FUSED = "a layer is an instruction of XLA's, which may do the work of several of the model's"
_ENVIRONMENT, _BEGAN, _INSTRUCTION = "Task Environment", "profile_start_time", "hlo_op"


class XlaCapture:
    """One block of predict calls with TensorFlow's profiler on."""

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
        for inputs in warmed_with:
            predict(inputs)
        self._folder = tempfile.TemporaryDirectory(dir=scratch, prefix="layers-")
        self._began_offset_ns = epoch_offset_ns()
        # A GPU's own records are a collector's: two of its clients in one process exclude others.
        options = tf.profiler.experimental.ProfilerOptions(2, 0, 0)
        tf.profiler.experimental.start(self._folder.name, options)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        began = now_ns()
        outputs = self._predict(inputs)
        self._calls.append((began, now_ns()))
        return outputs

    def close(self) -> list[list[Layer]]:
        """End the profile and return the layers of each call; leave no file."""
        tf.profiler.experimental.stop()
        offset_ns = epoch_offset_ns()
        moved_ns = abs(offset_ns - self._began_offset_ns)
        self.notes.append(f"XLA's times were put on our clock to within {moved_ns + 1000} ns")
        try:
            found = next(Path(self._folder.name).rglob("*.xplane.pb"), None)
            if found is None:
                raise OSError("TensorFlow's profiler wrote no file")
            ran = list(instructions_in(found.read_bytes(), offset_ns))
        finally:
            self._folder.cleanup()
        return layers_by_call(ran, self._calls, self._program)


def instructions_in(profile: bytes, offset_ns: int) -> Iterator[Ran]:
    """Yield each instruction that ran; `offset_ns` is the epoch's on our clock."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(profile)
    began_ns = _began_ns(space) - offset_ns
    line_number = 0
    for plane in space.planes:
        for line in plane.lines:
            line_number += 1
            for event in line.events:
                name = _told(plane, event).get(_INSTRUCTION)
                if name:
                    start_ns = began_ns + line.timestamp_ns + event.offset_ps // 1000
                    yield Ran(str(name), start_ns, event.duration_ps // 1000, line_number)


def _began_ns(space: Any) -> int:
    """Return the epoch time that the profile's own count from."""
    for plane in space.planes:
        if plane.name == _ENVIRONMENT:
            return int(_told(plane, plane)[_BEGAN])
    raise ValueError("TensorFlow's profile does not say when it began")


def _told(plane: Any, of: Any) -> dict[str, Any]:
    """Return what a plane or one of its events says of itself, by name."""
    told = {}
    for stat in of.stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind) if kind else ""
        value = plane.stat_metadata[value].name if kind == "ref_value" else value
        told[plane.stat_metadata[stat.metadata_id].name] = value
    return told
