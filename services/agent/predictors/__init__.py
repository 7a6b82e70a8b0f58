"""Predictors, one framework a file: open, predict, close, and nothing else.

A package adds a framework with an entry point in the group `mlscope.predictors`: the
framework's name, leading to a function `(OpenRequest) -> Predictor`. A predictor whose
framework can trace its layers also has a `layers` function, see `LayerSource`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from schemas.level import Level
from schemas.manifest import ModelManifest
from services.agent.errors import PackageMissing, UnknownFramework

GROUP = "mlscope.predictors"

Tensors = Mapping[str, npt.NDArray[np.generic]]
"""Tensors by name; the first dimension of each is the batch."""


BUILDERS = (
    "torchvision.models",
    "timm.create_model",
    "keras.applications",
    "efficientnet_lite_pytorch.EfficientNet.from_name",
    "services.agent.networks",
)
"""Builders allowed when the agent's owner says nothing: each makes a model, and nothing else."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """What to open: a checked model, for one batch size, on a device, with options."""

    model: ModelManifest
    #: the checked model file and its bytes; empty where a builder makes the model
    graph_path: Path
    graph: bytes
    batch_size: int
    device: str = "cpu"
    options: Mapping[str, Any] = field(default_factory=dict)
    #: checked weights beside the graph, when it does not hold them
    weights_path: Path | None = None
    #: where a predictor may write files of its own while it is open
    scratch: Path = Path()
    #: import paths below which a builder may be
    builders: Sequence[str] = BUILDERS
    #: hosts beside this one whose servers may be asked
    remote_hosts: Sequence[str] = ()
    #: trace the layers of the very first run, where they can be
    traces_first: bool = False


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """One input or output as the opened model has it; -1 is any size."""

    name: str
    shape: tuple[int, ...]
    element_type: str


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of one predict call: absolute CLOCK_MONOTONIC nanoseconds.

    `attributes` is the JSON text of a `natures.Nature`.
    """

    name: str
    start_ns: int
    duration_ns: int
    thread: int
    attributes: bytes


@dataclass(frozen=True, slots=True)
class WeightMove:
    """A module's own weights read into it, or moved to the device, as its model was opened.

    `action` is `LOAD` or `PLACE` of `mlscope.tracing.weights`; CLOCK_MONOTONIC nanoseconds.
    """

    action: str
    module: str
    start_ns: int
    duration_ns: int
    thread: int
    weight_bytes: int


@dataclass(frozen=True, slots=True)
class FirstRun:
    """A cold start: when opening began, was through, and the first run ended (CLOCK_MONOTONIC ns).

    `layers` are those of the first run, where it was traced; `weights` what loading cost by
    module, where the framework tells.
    """

    began_ns: int
    loaded_ns: int
    started_ns: int
    ended_ns: int
    layers: tuple[Layer, ...] = ()
    weights: tuple[WeightMove, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """What was opened, as it really is: the conditions of its results."""

    framework: str
    framework_version: str
    inputs: tuple[TensorPlace, ...]
    outputs: tuple[TensorPlace, ...]
    device: str
    provider: str
    precision: str
    threads: int
    options: Mapping[str, Any]
    #: how it was opened, stamp by stamp
    first: FirstRun | None = None
    #: nanoseconds to open it, and of its very first run
    load_ns: int = 0
    first_run_ns: int = 0
    deepest_level: Level = Level.MODEL
    #: why it is no deeper, where that is not plain
    level_reason: str = ""
    #: what opening and first run added to the process's resident memory
    memory_bytes: int = 0
    #: what the framework holds of a device's own memory; 0 on a CPU, or where it does not say
    device_memory_bytes: int = 0


class Predictor(Protocol):
    """An opened model."""

    @property
    def opened(self) -> Opened:
        """What was opened."""
        ...

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch.

        They stay valid until the next call with the same input arrays, so that a predictor may
        bind arrays once. Raises PredictFailed.
        """
        ...

    def close(self) -> None:
        """Free what it holds; called once."""
        ...


class LayerCapture(Protocol):
    """One block of predict calls with their layers traced; made anew for each block.

    It lies beside the measured model or is taken off it by `close`: calls without a capture are
    never slower for it.
    """

    @property
    def notes(self) -> Sequence[str]:
        """How its times came about, and what is missing, for a reader; whole after `close`."""
        ...

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch, as `Predictor.predict` does."""
        ...

    def close(self) -> list[list[Layer]]:
        """End the capture and return the layers of each predict call, in order.

        Whatever takes time (reading a profile) happens here, outside the timed part.
        """
        ...


@runtime_checkable
class LayerSource(Protocol):
    """A predictor that can trace its layers."""

    def layers(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin a capture: open what it needs and predict each of these batches, uncounted.

        Raises OpenFailed, PredictFailed.
        """
        ...


OpenModel = Callable[[OpenRequest], Predictor]

SHIPPED: Mapping[str, str] = MappingProxyType(
    {
        "jax": "services.agent.predictors.jax:open_model",
        "litert": "services.agent.predictors.litert:open_model",
        "onnxruntime": "services.agent.predictors.onnxruntime:open_model",
        "openvino": "services.agent.predictors.openvino:open_model",
        "pytorch": "services.agent.predictors.pytorch:open_model",
        "remote": "services.agent.predictors.remote:open_model",
        "tensorflow": "services.agent.predictors.tensorflow:open_model",
        "tensorrt": "services.agent.predictors.tensorrt:open_model",
    }
)
"""Where the shipped predictors are when the package is not installed but only on the path."""


def predictor_names() -> tuple[str, ...]:
    """Return every framework a predictor is known for, importing none."""
    return tuple(sorted({*SHIPPED, *(point.name for point in entry_points(group=GROUP))}))


def predictor_named(framework: str) -> OpenModel:
    """Return the function that opens models of a framework.

    Raises UnknownFramework, PackageMissing.
    """
    try:
        for point in entry_points(group=GROUP, name=framework):
            return cast("OpenModel", point.load())
        if framework in SHIPPED:
            module, _, function = SHIPPED[framework].partition(":")
            return cast("OpenModel", getattr(import_module(module), function))
    except (ImportError, AttributeError) as error:
        raise PackageMissing(f"framework {framework}", str(error)) from error
    raise UnknownFramework(framework, predictor_names())
