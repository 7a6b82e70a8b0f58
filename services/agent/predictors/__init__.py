"""Predictors open, run and close models, one module or package for each framework.

A package adds a framework with an entry point in the group `mlscope.predictors`: its name is the
framework's, its value a function `(OpenRequest) -> Predictor`. A predictor that can trace layers
also has a method `layers`, see `LayerSource`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from schemas.level import Level
from schemas.manifest import ModelManifest
from services.agent.default_builders import BUILDERS
from services.agent.errors import PackageMissing, UnknownName
from services.agent.plug_ins import plug_ins
from services.agent.predictors.normalization import Normalization

GROUP = "mlscope.predictors"

Tensors = Mapping[str, npt.NDArray[np.generic]]
"""Tensors by name; the first dimension of each is the batch."""

MAX_BOUND = 4096
"""Batches whose arrays a predictor binds at most; beyond it the oldest is bound anew."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """The model to open, its batch size, device and options."""

    model: ModelManifest
    #: the model file, its checksum verified, and its bytes; empty where a builder makes the model
    graph_path: Path
    graph: bytes
    batch_size: int
    device: str = "cpu"
    options: Mapping[str, Any] = field(default_factory=dict)
    #: the file of the weights, with a verified checksum, where the graph does not contain them
    weights_path: Path | None = None
    #: a folder for a predictor's temporary files
    scratch: Path = Path()
    #: import paths that a builder may be or lie below
    builders: Sequence[str] = BUILDERS
    #: hosts other than this one whose servers may be called
    remote_hosts: Sequence[str] = ()
    #: trace the layers of the very first run, where that is possible
    traces_first: bool = False
    #: what the predictor computes of an input's bytes; those of all inputs, or none
    normalizations: Sequence[Normalization | None] = ()


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """One input or output of the opened model; a size of -1 is free."""

    name: str
    shape: tuple[int, ...]
    element_type: str


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of one predict call, in CLOCK_MONOTONIC nanoseconds.

    `thread` is a native thread id; `attributes` is the JSON text of
    `mlscope.tracing.layer_attributes.LayerAttributes`.
    """

    name: str
    start_ns: int
    duration_ns: int
    thread: int
    attributes: bytes


@dataclass(frozen=True, slots=True)
class WeightMove:
    """A module's own weights being loaded, or moved to the device, while its model is opened.

    `action` is `LOAD` or `PLACE` of `mlscope.tracing.weights`; times are CLOCK_MONOTONIC ns.
    """

    action: str
    module: str
    start_ns: int
    duration_ns: int
    thread: int
    weight_bytes: int


@dataclass(frozen=True, slots=True)
class FirstRun:
    """A cold start: begin and end of loading, and of the first run (CLOCK_MONOTONIC ns).

    `layers` are those of the first run, where it was traced; `weights` the loads and moves of
    weights, where the framework reports them.
    """

    began_ns: int
    loaded_ns: int
    started_ns: int
    ended_ns: int
    layers: tuple[Layer, ...] = ()
    weights: tuple[WeightMove, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """The opened model as it is: the conditions under which its results are measured."""

    framework: str
    framework_version: str
    inputs: tuple[TensorPlace, ...]
    outputs: tuple[TensorPlace, ...]
    device: str
    provider: str
    precision: str
    threads: int
    options: Mapping[str, Any]
    #: the times of opening and first run; None for a model that did not run yet
    first: FirstRun | None = None
    #: duration of loading, and of the very first run
    load_ns: int = 0
    first_run_ns: int = 0
    deepest_level: Level = Level.MODEL
    #: why deeper levels are not supported, where that is not obvious
    level_reason: str = ""
    #: growth of the process's resident memory by opening and first run
    memory_bytes: int = 0
    #: the device's own memory that the framework uses; 0 on a CPU, or where it is unknown
    device_memory_bytes: int = 0
    #: kinds of the host's memory (`page_locking`) that a GPU copies inputs from and outputs into;
    #: '' on a CPU, where nothing is copied
    host_memory: str = ""
    output_memory: str = ""
    #: why memory is pageable that could be page-locked; '' where nothing was refused
    memory_reason: str = ""
    #: what a reader of its results must know
    notes: tuple[str, ...] = ()


class Predictor(Protocol):
    """An opened model."""

    @property
    def opened(self) -> Opened:
        """The model as it was opened."""
        ...

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch.

        They are valid until the next call with the same input arrays, so that a predictor may
        bind arrays once. Raises PredictFailed.
        """
        ...

    def close(self) -> None:
        """Free the model and its memory; called once."""
        ...


COPY_IN, COMPUTE, COPY_OUT = "copy_in", "compute", "copy_out"
"""The parts of a predict call on a device with memory of its own."""

LAUNCH_NOTE = (
    "on a GPU a layer's time is that of its kernel launches; kernel times are at level system"
)
"""A note on layers of frameworks that do not wait for a GPU's kernels."""


@dataclass(frozen=True, slots=True)
class CallPart:
    """A part of a predict call, in CLOCK_MONOTONIC nanoseconds."""

    name: str
    start_ns: int
    duration_ns: int


def call_parts(ends_ns: Sequence[int]) -> list[CallPart]:
    """Return the parts of a call that were waited for one by one.

    `ends_ns`: when it began, then when each part ended (CLOCK_MONOTONIC).
    """
    names = COPY_IN, COMPUTE, COPY_OUT
    spells = zip(names, pairwise(ends_ns), strict=True)
    return [CallPart(name, start, end - start) for name, (start, end) in spells]


@runtime_checkable
class PartsSource(Protocol):
    """A predictor that can tell the copies of a call from its computing."""

    def predict_parts(self, inputs: Tensors) -> tuple[Tensors, Sequence[CallPart]]:
        """Return the outputs for one batch, and the parts of the call. Raises PredictFailed."""
        ...


class Pending(Protocol):
    """A predict call that was begun."""

    def wait(self) -> Tensors:
        """Return the outputs once they are in the host's memory. Raises PredictFailed."""
        ...


@runtime_checkable
class OverlappingPredictor(Protocol):
    """A predictor whose copies for one call can overlap the computing of another."""

    def begin(self, inputs: Tensors) -> Pending:
        """Begin a call; at most two with the same arrays at a time. Raises PredictFailed."""
        ...


@runtime_checkable
class InputHolder(Protocol):
    """A predictor whose inputs may be on the device before a call."""

    @property
    def holds_inputs(self) -> bool:
        """Whether the request asks for that."""
        ...

    def hold(self, inputs: Tensors) -> None:
        """Copy the arrays to the device, where later calls read them. Raises PredictFailed."""
        ...

    def release(self, inputs: Tensors) -> None:
        """Let later calls read the arrays again."""
        ...

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        ...

    def is_held_unchanged(self, inputs: Tensors) -> bool:
        """Return whether the model left the copies on the device as they were."""
        ...


@runtime_checkable
class ArrayBinder(Protocol):
    """A predictor that holds the arrays of earlier calls."""

    def forget_arrays(self) -> None:
        """Release the arrays of earlier predict calls."""
        ...


class LayerCapture(Protocol):
    """One block of predict calls with their layers traced; there is a new one for each block.

    It uses a twin of the measured model, or `close` removes it from the model, so that calls
    without a capture are not slower.
    """

    @property
    def notes(self) -> Sequence[str]:
        """Caveats: how its times were measured, and what is missing; complete after `close`."""
        ...

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch, as `Predictor.predict` does."""
        ...

    def close(self) -> list[list[Layer]]:
        """End the capture and return the layers of each predict call, in order.

        Slow work such as reading a profile happens here, outside of timed calls.
        """
        ...


@runtime_checkable
class LayerSource(Protocol):
    """A predictor that can trace its layers."""

    def layers(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin a capture, and predict each batch of `warmed_with` once, uncounted.

        Raises OpenFailed, PredictFailed.
        """
        ...


OpenModel = Callable[[OpenRequest], Predictor]

SHIPPED: Mapping[str, str] = MappingProxyType(
    {
        "jax": "services.agent.predictors.jax.predictor:open_model",
        "litert": "services.agent.predictors.litert:open_model",
        "onnxruntime": "services.agent.predictors.onnxruntime.predictor:open_model",
        "openvino": "services.agent.predictors.openvino.predictor:open_model",
        "pytorch": "services.agent.predictors.pytorch.predictor:open_model",
        "remote": "services.agent.predictors.remote:open_model",
        "tensorflow": "services.agent.predictors.tensorflow.predictor:open_model",
        "tensorrt": "services.agent.predictors.tensorrt:open_model",
    }
)
"""The shipped predictors, for a package that is on the path but not installed."""


def predictor_names() -> tuple[str, ...]:
    """Return the frameworks that have a predictor, without importing any."""
    return tuple(sorted({*SHIPPED, *plug_ins(GROUP)}))


def predictor_named(framework: str) -> OpenModel:
    """Return the function that opens models of a framework.

    Raises UnknownName, PackageMissing.
    """
    try:
        if point := plug_ins(GROUP).get(framework):
            return cast("OpenModel", point.load())
        if framework in SHIPPED:
            module, _, function = SHIPPED[framework].partition(":")
            return cast("OpenModel", getattr(import_module(module), function))
    except (ImportError, AttributeError) as error:
        raise PackageMissing(f"framework {framework}", str(error)) from error
    raise UnknownName("framework", framework, predictor_names())
