"""JAX: exported programs and builders' functions, compiled by XLA for one shape.

XLA compiles in the first run. Inputs of another shape or type would be compiled for anew without a
word, so they are refused. On a GPU a predict call ends when its outputs are in the host's memory.
"""

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from schemas.level import Level
from services.agent.errors import (
    AgentError,
    BadOption,
    BatchSizeUnsupported,
    OpenFailed,
    PredictFailed,
)
from services.agent.predictors import LayerCapture, Opened, OpenRequest, TensorPlace, Tensors
from services.agent.predictors.jax_layers import ProfiledCapture
from services.agent.predictors.jax_options import Options, options_of
from services.agent.predictors.jax_program import (
    Program,
    built_program,
    computed_in,
    exported_program,
    is_exported,
    path_name,
)
from services.agent.predictors.naming import names_for
from services.agent.predictors.opening import Opening
from services.agent.predictors.shapes import first_line, zeros
from services.agent.predictors.xla_graphs import GRAPHS
from services.agent.predictors.xla_program import Program as Compiled
from services.agent.predictors.xla_program import program_of

_THREADS = ("PJRT_NPROC", "NPROC")
_TASKS = Path("/proc/self/task")
_POOL = "tf_XLAEigen"
_TF32 = ("default", "high", "tensorfloat32")


def open_model(request: OpenRequest) -> "JaxPredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    exported = is_exported(request)
    options = options_of(request.options, request.device, exported=exported)
    device = _device(options)
    opening = Opening(request)
    try:
        with jax.default_device(device):
            program = (
                exported_program(request) if exported else built_program(request, options.precision)
            )
            predictor = JaxPredictor(request, options, program, device)
    except AgentError:
        raise
    except Exception as error:  # builders and traced functions raise what they like
        raise OpenFailed(request.model.name, first_line(error)) from error
    opening.loaded()
    predictor.settle(opening.run_first(predictor, predictor.filled))
    return predictor


class JaxPredictor:
    """An opened JAX model."""

    def __init__(
        self, request: OpenRequest, options: Options, program: Program, device: Any
    ) -> None:
        self._request = request
        self._options = options
        self._device = device
        self._inputs = program.inputs
        #: zeros in the shapes it is traced for, until it has run
        self.filled = zeros(program.inputs, request.model.inputs, request.batch_size)
        self._expected = {name: (a.shape, a.dtype) for name, a in self.filled.items()}
        self._parameters = jax.device_put(program.parameters, device)
        self._call = jax.jit(_in_matmul_precision(program.function, options.matmul_precision))
        self._names: list[str] | None = None
        self._compiled: Compiled | None = None
        self._precision = self._traced()
        self._scope = _scope(device)
        self.opened = self._opened()

    def settle(self, outputs: Tensors) -> None:
        """Note what its outputs are like, and what it holds of a GPU's memory."""
        places = tuple(
            TensorPlace(name, (-1, *array.shape[1:]), str(array.dtype))
            for name, array in outputs.items()
        )
        self.filled = {}
        held = (self._device.memory_stats() or {}).get("bytes_in_use", 0)
        self.opened = replace(self.opened, outputs=places, device_memory_bytes=held)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        try:
            arrays = [self._checked(inputs, name) for name in self._expected]
            with self._scope():
                answer = self._call(self._parameters, *arrays)
            if self._names is None:
                self._names = _output_names(answer, self._request)
            if isinstance(answer, jax.Array):
                return {self._names[0]: _on_host(answer)}
            leaves = jax.tree_util.tree_leaves(answer)
            return {name: _on_host(leaf) for name, leaf in zip(self._names, leaves, strict=True)}
        except PredictFailed:
            raise
        except Exception as error:  # XLA's errors share no root
            raise PredictFailed(first_line(error)) from error

    def layers(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin a capture; without batches, of a first run. Raises PredictFailed.

        The model is compiled once more, for its text; not before a first run, which compiles it.
        """
        if not warmed_with:
            program = program_of("", self.opened.provider)
            return ProfiledCapture(program, self.predict, (), self._request.scratch)
        if self._compiled is None:
            shapes = [jax.ShapeDtypeStruct(*each) for each in self._expected.values()]
            with self._scope():
                text = self._call.lower(self._parameters, *shapes).compile().as_text()
            self._compiled = program_of(text, self.opened.provider)
        if self._device.platform == "gpu":
            GRAPHS.instructions = self._compiled.graphable()
        return ProfiledCapture(self._compiled, self.predict, warmed_with, self._request.scratch)

    def close(self) -> None:
        """Free the parameters and what was compiled."""
        GRAPHS.instructions = ()
        del self._call, self._parameters
        self.filled = {}
        jax.clear_caches()
        gc.collect()

    def _checked(self, inputs: Tensors, name: str) -> Any:
        array, (shape, dtype) = inputs.get(name), self._expected[name]
        if array is None:
            raise PredictFailed(f"input {name} is missing")
        if array.shape != shape or array.dtype != dtype:
            raise PredictFailed(
                f"input {name} is {array.dtype}{list(array.shape)}, opened for {dtype}{list(shape)}"
            )
        return array

    def _traced(self) -> str:
        """Trace for the batch's shapes; return the precision. Raises BatchSizeUnsupported."""
        try:
            lowered = self._call.lower(self._parameters, *self.filled.values())
        except Exception as error:  # traced functions raise what they like
            port, batch_size = self._request.model.inputs[0], self._request.batch_size
            if batch_size > 1 and port.shape[:1] == (1,):
                raise BatchSizeUnsupported(batch_size, port.layer_name, port.shape) from error
            raise
        precision, callback = computed_in(lowered)
        if callback:
            raise OpenFailed(self._request.model.name, f"calls back into the host: {callback}")
        on_gpu = self._device.platform == "gpu"
        if on_gpu and precision == "float32" and self._options.matmul_precision in _TF32:
            return "float32 (tf32 allowed)"
        if on_gpu and precision == "float32" and self._options.matmul_precision == "bfloat16":
            return "float32 (bfloat16 products)"
        return precision

    def _opened(self) -> Opened:
        device = self._device
        return Opened(
            framework="jax",
            framework_version=jax.__version__,
            inputs=self._inputs,
            outputs=(),
            device=device.platform,
            provider=f"XLA {device.device_kind}",
            precision=self._precision,
            threads=_pool_threads() or self._options.threads,
            options=self._options.as_given(),
            deepest_level=Level.FRAMEWORK,
        )


def _scope(device: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Return what a call is made in, so that arrays of the host go to the device."""
    if device == jax.devices()[0]:
        return nullcontext
    return lambda: jax.default_device(device)


def _device(options: Options) -> Any:
    """Return the device, once the process is set up for it. Raises BadOption, OpenFailed."""
    place, _, number = options.device.partition(":")
    jax.config.update("jax_enable_x64", False)
    # Otherwise XLA takes three quarters of a GPU's memory, and memory measured says nothing.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        with _environment(dict.fromkeys(_THREADS, str(options.threads))):
            if place == "cpu":
                jax.config.update("jax_platforms", "cpu")
            device = jax.devices(place)[int(number or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        raise BadOption("device", options.device, f"one JAX has: {first_line(error)}") from error
    found = _pool_threads()
    if found and place == "cpu" and found != options.threads:
        # The pool is made once a process: the second model of a test's.
        raise OpenFailed("jax", f"threads: this process has {found} already")
    return device


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _pool_threads() -> int:
    """Return how many threads XLA's CPU pool has; 0 where that can't be seen."""
    try:
        names = [(each / "comm").read_text().strip() for each in _TASKS.iterdir()]
    except OSError:
        return 0
    return names.count(_POOL)


def _in_matmul_precision(function: Any, precision: str) -> Any:
    if precision == "default":
        return function

    def traced(*leaves: Any) -> Any:
        with jax.default_matmul_precision(precision):
            return function(*leaves)

    return traced


def _output_names(answer: Any, request: OpenRequest) -> list[str]:
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(answer)[0]]
    own = [path_name(path) or "0" for path in paths]
    return names_for(own, request.model.outputs)


def _on_host(leaf: Any) -> Any:
    array = np.asarray(leaf)
    # NumPy has no bfloat16 of its own: what follows could not compute with it. A type's name
    # costs a microsecond, its kind nothing; V is what types of other packages have.
    if array.dtype.kind == "V" and array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return array
