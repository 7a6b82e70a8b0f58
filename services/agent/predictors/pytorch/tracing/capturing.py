"""Choose how a PyTorch model's layers are captured: by its modules, or by its operators."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from services.agent.predictors import LayerCapture, Tensors
from services.agent.predictors.boundary import PREDICTING
from services.agent.predictors.pytorch.options import Options
from services.agent.predictors.pytorch.tracing.events import EventNames, KinetoCapture
from services.agent.predictors.pytorch.tracing.kernels import Provenance
from services.agent.predictors.pytorch.tracing.layers import EagerCapture
from services.agent.predictors.pytorch.tracing.plan import LayerPlan, plan_of
from services.agent.predictors.pytorch.tracing.probe import ModelTrace, Operator, probe, wrappable
from services.agent.predictors.pytorch.tracing.profiler import PROFILER, SharedProfiler
from services.agent.predictors.pytorch.tracing.programs import operator_names

_NAMED_KERNELS = {"cpp.enable_kernel_profile": True, "trace.provenance_tracking_level": 1}
_CUDA_GRAPHS = "triton.cudagraphs"
_REPLAY_NOTE = (
    "a CUDA graph is replayed by one call, so its layers have no times of their own; at level "
    "system its kernels are assigned to the layers of one call without it, by name and order"
)
_COMPILED_NOTE = (
    "layers of a compiled model are the operators and kernels of its regions, by PyTorch's profiler"
)
_PROGRAM_NOTE = "layers are the program's operators, by PyTorch's profiler"

Predict = Callable[[Tensors], Tensors]


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """The ways to call an opened model; those that return `Tensors` raise PredictFailed."""

    #: as it is measured
    predict: Predict
    #: without replaying a captured graph
    direct: Predict
    #: without replaying a captured graph, and with the model's call in a region of the profiler
    marked: Predict
    #: returns the model's outputs as they are, on the device
    call: Callable[[Tensors], Any]
    #: returns the marked call of another module in place of the model's
    marked_call_of: Callable[[Any], Predict]


class LayerCaptures:
    """Begins the captures of one opened model; what an uncounted call shows is reused."""

    def __init__(self, module: Any, options: Options, calls: ModelCalls) -> None:
        """Take an opened `module`, the `options` it was opened with, and its `calls`."""
        self._module = module
        self._options = options
        self._calls = calls
        self._twin: Predict | None = None
        self._plan: LayerPlan | None = None
        self._names: EventNames | None = None
        self._provenance = Provenance()

    def begin(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin the capture of a block; without batches, of a first run. Raises PredictFailed."""
        is_compiled = self._options.compile != "none"
        if warmed_with and (self._options.graphs or self._replays_compiled):
            PROFILER.unreplayed = lambda profiler: self._begin_unreplayed(warmed_with[0], profiler)
        if self._options.graphs:
            return ReplayCapture(self._calls.predict, warmed_with)
        if warmed_with and is_compiled:
            return self._begin_compiled(warmed_with)
        if warmed_with:
            return self._begin_uncompiled(self._calls.predict, warmed_with, PROFILER)
        # No call may precede a first run, so nothing is known of its operators.
        if wrappable(self._module) and not is_compiled and not operator_names(self._module):
            plan = plan_of(self._module, ModelTrace(), self._options.device)
            return EagerCapture(plan, self._calls.predict, ())
        return KinetoCapture(EventNames(self._options.device), self._calls.marked, ())

    def close(self) -> None:
        """Remove the model's calls from the process's profiler."""
        PROFILER.unreplayed = None

    @property
    def _replays_compiled(self) -> bool:
        """Whether Inductor captures CUDA graphs of the compiled model."""
        is_on_gpu, mode = self._options.device.startswith("cuda"), self._options.compile
        return is_on_gpu and mode != "none" and bool(_inductor_options(mode).get(_CUDA_GRAPHS))

    def _begin_uncompiled(
        self, predict: Predict, warmed_with: Sequence[Tensors], profiler: SharedProfiler
    ) -> LayerCapture:
        if self._plan is None and self._names is None:
            # One uncounted call shows the layers.
            with PREDICTING, torch.inference_mode():
                trace = probe(self._module, lambda: self._calls.call(warmed_with[0]))
            names = operator_names(self._module)
            plan = None
            if wrappable(self._module) and not names:
                plan = plan_of(self._module, trace, self._options.device)
            if plan and (not plan.is_single_layer or len(trace.operators) < 2):
                self._plan = plan
            else:
                operators: dict[str, list[Operator]] = {}
                for operator in trace.operators:
                    operators.setdefault(operator.name, []).append(operator)
                self._names = EventNames(self._options.device, operators, names)
        if self._plan is not None:
            on_gpu = self._options.device.startswith("cuda")
            return EagerCapture(self._plan, predict, warmed_with, on_gpu=on_gpu)
        assert self._names is not None
        notes = [_PROGRAM_NOTE]
        return KinetoCapture(self._names, self._calls.marked, warmed_with, notes, profiler)

    def _begin_unreplayed(
        self, inputs: Tensors, profiler: SharedProfiler
    ) -> tuple[LayerCapture, Tensors]:
        """Begin a capture of calls that replay no graph; see `profiler.Unreplayed`."""
        if self._options.compile == "none":
            return self._begin_uncompiled(self._calls.direct, [inputs], profiler), inputs
        predict = self._calls.marked
        if self._replays_compiled:
            options = {**_inductor_options(self._options.compile), _CUDA_GRAPHS: False}
            predict = self._compile_twin(options, inputs)
        return KinetoCapture(self._compiled_names(), predict, [inputs], [], profiler), inputs

    def _begin_compiled(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin on a CPU with a twin whose kernels have names; on a GPU with the model itself.

        There the profiler sees the launches of kernels without any help.
        """
        notes = [_COMPILED_NOTE]
        if self._options.device.startswith("cuda"):
            self._twin = self._calls.marked
            notes += [_REPLAY_NOTE] if self._replays_compiled else []
        if self._twin is None:
            options = _inductor_options(self._options.compile)
            self._twin = self._compile_twin(options, warmed_with[0])
        return KinetoCapture(self._compiled_names(), self._twin, warmed_with, notes)

    def _compiled_names(self) -> EventNames:
        if self._names is None:
            self._names = EventNames(self._options.device, origins=self._provenance.origins)
        return self._names

    def _compile_twin(self, options: Mapping[str, Any], inputs: Tensors) -> Predict:
        """Compile the model again, with kernels that report their names. Raises PredictFailed."""
        backend = self._provenance.backend({**options, **_NAMED_KERNELS})
        model = self._module._orig_mod  # noqa: SLF001
        twin = self._calls.marked_call_of(torch.compile(model, backend=backend))
        with self._provenance.watching():
            twin(inputs)
        return twin


class ReplayCapture:
    """A block of a captured CUDA graph: its calls have no layers."""

    notes: Sequence[str] = (_REPLAY_NOTE,)

    def __init__(self, predict: Predict, warmed_with: Sequence[Tensors]) -> None:
        """Predict each batch of `warmed_with` once, uncounted. Raises PredictFailed."""
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
        """Return an empty list for each call."""
        return [[] for _ in range(self._calls)]


def _inductor_options(mode: str) -> Mapping[str, Any]:
    """Return the options of Inductor that a mode of `torch.compile` sets."""
    options: Mapping[str, Any] = torch._inductor.list_mode_options(mode)  # noqa: SLF001
    return options
