"""A block of predict calls with XLA's profiler on: the calls' times, its file, and its clock."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mlscope.tracing.clock import epoch_offset_ns, now_ns
from services.agent.predictors import Tensors

_FUSED_NOTE = "a layer is an XLA instruction, which may combine several of the model's operations"


class ProfiledBlock:
    """Predict calls of a block; the framework writes their profile into `folder`."""

    def __init__(
        self, predict: Callable[[Tensors], Tensors], warmed_with: Sequence[Tensors], scratch: Path
    ) -> None:
        """Predict each batch of `warmed_with` once, uncounted.

        `predict` runs the model; `folder` is in `scratch`, until the profile was read. Raises
        PredictFailed.
        """
        self._predict = predict
        self.notes: list[str] = [_FUSED_NOTE]
        #: when each call began and ended (CLOCK_MONOTONIC ns)
        self.calls: list[tuple[int, int]] = []
        for inputs in warmed_with:
            predict(inputs)
        self._folder = tempfile.TemporaryDirectory(dir=scratch, prefix="layers-")
        self.folder = self._folder.name
        self._began_offset_ns = epoch_offset_ns()

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        began_ns = now_ns()
        outputs = self._predict(inputs)
        self.calls.append((began_ns, now_ns()))
        return outputs

    @contextmanager
    def written(self) -> Iterator[tuple[Path, int]]:
        """Lend the profile, and the epoch on CLOCK_MONOTONIC in ns; the folder is then removed.

        To be called once the profiler has stopped. Raises OSError when it wrote no file.
        """
        offset_ns = epoch_offset_ns()
        moved_ns = abs(offset_ns - self._began_offset_ns)
        self.notes.append(f"XLA's times are on mlscope's clock to within {moved_ns + 1000} ns")
        with self._folder:
            path = next(Path(self.folder).rglob("*.xplane.pb"), None)
            if path is None:
                raise OSError("XLA's profiler wrote no file")
            yield path, offset_ns
