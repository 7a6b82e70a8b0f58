"""Which way a PyTorch model's layers are captured: by its modules, or by its operators."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from services.agent.errors import PredictFailed
from services.agent.predictors import LayerCapture, Tensors
from services.agent.predictors.pytorch_events import EventNames, KinetoCapture
from services.agent.predictors.pytorch_kernels import Provenance
from services.agent.predictors.pytorch_layers import EagerCapture
from services.agent.predictors.pytorch_options import Options
from services.agent.predictors.pytorch_plan import LayerPlan, plan_of
from services.agent.predictors.pytorch_probe import Operator, Seen, probe, wrappable
from services.agent.predictors.pytorch_profiler import PROFILER, SharedProfiler
from services.agent.predictors.pytorch_programs import operator_places
from services.agent.predictors.shapes import first_line

_NAMED_KERNELS = {"cpp.enable_kernel_profile": True, "trace.provenance_tracking_level": 1}
_GRAPHS = "triton.cudagraphs"
_REPLAYED = (
    "a CUDA graph is replayed whole: no layer of it runs by itself; at level system its kernels "
    "take the layers of one call without it, by name and order"
)
_COMPILED = (
    "a compiled model's layers are its regions' operators and kernels, by PyTorch's profiler"
)
_PROGRAM = "layers are the program's operators, by PyTorch's profiler"

Predict = Callable[[Tensors], Tensors]
Call = Callable[[Tensors], Any]
"""Calls the model with a batch, as its predictor does; its outputs stay on the device."""


@dataclass(frozen=True, slots=True)
class Calls:
    """How one opened model is called."""

    #: as it is measured
    predict: Predict
    #: likewise, but never by a captured graph
    direct: Predict
    #: likewise, the model's own call in a region of the profiler's
    marked: Predict
    call: Call
    #: how another module like it is predicted with, its call marked
    predictor_of: Callable[[Any], Predict]


class Capturing:
    """Begins the captures of one opened model; what an uncounted call shows is kept."""

    def __init__(self, module: Any, options: Options, calls: Calls) -> None:
        """Take an opened module, and how it is called."""
        self._module = module
        self._options = options
        self._predict, self._calls = calls.predict, calls
        self._twin: Predict | None = None
        self._plan: LayerPlan | None = None
        self._names: EventNames | None = None
        self._provenance = Provenance()

    def begin(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin the capture of a block; without batches, of a first run. Raises PredictFailed."""
        if warmed_with and (self._options.graphs or self._replays_compiled):
            PROFILER.unreplayed = lambda profiler: self._unreplayed(warmed_with[0], profiler)
        if self._options.graphs:
            return Replayed(self._predict, warmed_with)
        if not warmed_with:
            return self._begin_cold()
        if self._options.compile != "none":
            return self._begin_compiled(warmed_with)
        return self._begin_plain(self._predict, warmed_with, PROFILER)

    def close(self) -> None:
        """Forget how the model is called."""
        PROFILER.unreplayed = None

    @property
    def _replays_compiled(self) -> bool:
        """Whether Inductor captures what it compiles as CUDA graphs."""
        is_on_gpu, mode = self._options.device.startswith("cuda"), self._options.compile
        return is_on_gpu and mode != "none" and bool(_inductor_options(mode).get(_GRAPHS))

    def _begin_plain(
        self, predict: Predict, warmed_with: Sequence[Tensors], profiler: SharedProfiler
    ) -> LayerCapture:
        """Begin on a model that is not compiled."""
        if self._plan is None and self._names is None:
            self._look(warmed_with[0])
        if self._plan is not None:
            on_gpu = self._options.device.startswith("cuda")
            return EagerCapture(self._plan, predict, warmed_with, on_gpu=on_gpu)
        assert self._names is not None
        return KinetoCapture(self._names, self._calls.marked, warmed_with, [_PROGRAM], profiler)

    def _unreplayed(
        self, inputs: Tensors, profiler: SharedProfiler
    ) -> tuple[LayerCapture, Tensors]:
        """Begin a capture of calls that replay no graph, with a batch. Raises PredictFailed."""
        if self._options.compile == "none":
            return self._begin_plain(self._calls.direct, [inputs], profiler), inputs
        self._names = self._names or EventNames(
            self._options.device, origins=self._provenance.origins
        )
        predict = self._calls.marked
        if self._replays_compiled:
            options = {**_inductor_options(self._options.compile), _GRAPHS: False}
            predict = self._twin_with(options, inputs)
        return KinetoCapture(self._names, predict, [inputs], [], profiler), inputs

    def _begin_cold(self) -> LayerCapture:
        """Begin a capture of a first run: no call before it may show what the model does."""
        is_eager = wrappable(self._module) and self._options.compile == "none"
        if is_eager and not operator_places(self._module):
            plan = plan_of(self._module, Seen(), self._options.device)
            return EagerCapture(plan, self._predict, ())
        return KinetoCapture(EventNames(self._options.device), self._calls.marked, ())

    def _begin_compiled(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin on the model compiled once more, its CPU kernels telling the profiler their names.

        On a GPU the profiler sees kernels' launches as they are.
        """
        notes = [_COMPILED]
        if self._options.device.startswith("cuda"):
            self._twin = self._calls.marked
            notes += [_REPLAYED] if self._replays_compiled else []
        self._names = self._names or EventNames(
            self._options.device, origins=self._provenance.origins
        )
        if self._twin is None:
            options = _inductor_options(self._options.compile)
            self._twin = self._twin_with(options, warmed_with[0])
        return KinetoCapture(self._names, self._twin, warmed_with, notes)

    def _twin_with(self, options: Mapping[str, Any], inputs: Tensors) -> Predict:
        """Compile the model once more, its kernels telling their names. Raises PredictFailed."""
        backend = self._provenance.backend({**options, **_NAMED_KERNELS})
        model = self._module._orig_mod  # noqa: SLF001
        twin = self._calls.predictor_of(torch.compile(model, backend=backend))
        with self._provenance.watching():
            twin(inputs)
        return twin

    def _look(self, inputs: Tensors) -> None:
        """Learn the layers from one uncounted call. Raises PredictFailed."""
        try:
            with torch.inference_mode():
                seen = probe(self._module, lambda: self._calls.call(inputs))
        except Exception as error:  # a model's own code raises what it likes
            raise PredictFailed(first_line(error)) from error
        places = operator_places(self._module)
        if wrappable(self._module) and not places:
            plan = plan_of(self._module, seen, self._options.device)
            if not plan.is_whole or len(seen.operators) < 2:
                self._plan = plan
                return
        self._names = EventNames(self._options.device, _by_name(seen), places)


class Replayed:
    """A block of a captured CUDA graph: its calls have no layers."""

    notes: Sequence[str] = (_REPLAYED,)

    def __init__(self, predict: Predict, warmed_with: Sequence[Tensors]) -> None:
        """Predict each batch once, uncounted. Raises PredictFailed."""
        self._predict = predict
        self._calls = 0
        for inputs in warmed_with:
            predict(inputs)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        outputs = self._predict(inputs)
        self._calls += 1
        return outputs

    def close(self) -> list[list[Any]]:
        """Return no layer for each call."""
        return [[] for _ in range(self._calls)]


def _inductor_options(mode: str) -> Mapping[str, Any]:
    """Return what a mode of `torch.compile` sets of Inductor."""
    found: Mapping[str, Any] = torch._inductor.list_mode_options(mode)  # noqa: SLF001
    return found


def _by_name(seen: Seen) -> Mapping[str, Sequence[Operator]]:
    found: dict[str, list[Operator]] = {}
    for each in seen.operators:
        found.setdefault(each.name, []).append(each)
    return found
