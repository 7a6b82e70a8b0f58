"""TensorFlow: SavedModels, frozen graphs in a v1 session, and Keras files and builders.

Keras files are read in safe mode: no pickled code runs. A SavedModel is a program: what its graph
does, reading a file included, happens; its checksum is what speaks for it. GPU: unverified.
"""

import contextlib
import gc
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from schemas.level import Level
from services.agent.errors import AgentError, OpenFailed, PredictFailed
from services.agent.predictors import LayerCapture, Opened, OpenRequest, Tensors
from services.agent.predictors.opening import Opening
from services.agent.predictors.shapes import first_line
from services.agent.predictors.tensorflow_layers import NodeNames, TracedCapture, Twin
from services.agent.predictors.tensorflow_models import Loaded, form_of, loaded
from services.agent.predictors.tensorflow_options import Options, options_of
from services.agent.predictors.tensorflow_xla import XlaCapture
from services.agent.predictors.xla_program import Program, program_of


def open_model(request: OpenRequest) -> "TensorFlowPredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    form = form_of(request)
    found = [d.name.removeprefix("/physical_device:") for d in tf.config.list_physical_devices()]
    options = options_of(request.options, request.device, form, found)
    _set_up(options)
    opening = Opening(request)
    try:
        with tf.device(f"/{options.device}"):
            model = loaded(request, form, options)
    except AgentError:
        raise
    except Exception as error:  # TensorFlow, Keras and builders raise what they like
        raise OpenFailed(request.model.name, first_line(error)) from error
    predictor = TensorFlowPredictor(options, model, request.scratch)
    opening.loaded()
    opening.run_first(predictor)
    predictor.note_memory()
    return predictor


class TensorFlowPredictor:
    """An opened TensorFlow model."""

    def __init__(self, options: Options, model: Loaded, scratch: Path) -> None:
        self._options = options
        self._scratch = scratch
        #: what its layers come from, made by the first capture
        self._twin: Twin | None = None
        self._names = NodeNames(options.device)
        self._program: Program | None = None
        self._model = model
        self._call = model.call
        self._inputs = {place.name: (place.element_type, place) for place in model.inputs}
        self._outputs = [place.name for place in model.outputs]
        self._scope = _scope(options.device)
        self.opened = self._opened()

    def note_memory(self) -> None:
        """Write into `opened` what TensorFlow holds of a GPU's memory."""
        device = self._options.device
        if device.startswith("GPU"):
            held = int(tf.config.experimental.get_memory_info(device)["current"])
            self.opened = replace(self.opened, device_memory_bytes=held)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        return self._predict(self._call, inputs)

    def layers(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin a capture of layers. Raises OpenFailed, PredictFailed."""
        try:
            if self._model.twin is None:
                program = self._compiled(warmed_with[0]) if warmed_with else program_of("", "XLA")
                return XlaCapture(program, self.predict, warmed_with, self._scratch)
            if self._twin is None:
                with tf.device(f"/{self._options.device}"):
                    self._twin = self._model.twin()
                self._names = NodeNames(self._options.device, self._twin.details)
        except AgentError:
            raise
        except Exception as error:  # freezing and loading raise what they like
            raise OpenFailed("layers", first_line(error)) from error
        return TracedCapture(self._names, self._predict_traced, warmed_with)

    def close(self) -> None:
        """Close sessions, and let the model go."""
        if isinstance(self._model.session, tf.compat.v1.Session):
            self._model.session.close()
        if self._twin is not None:
            self._twin.session.close()
            self._twin = None
        del self._model, self._call
        gc.collect()

    def _predict(self, call: Any, inputs: Tensors, *more: Any) -> Tensors:
        try:
            arrays = [self._checked(inputs, name) for name in self._inputs]
            with self._scope:
                answers = call(arrays, *more)
            return {
                name: _in_numpy(each) for name, each in zip(self._outputs, answers, strict=True)
            }
        except PredictFailed:
            raise
        except Exception as error:  # a session raises ValueError, TypeError and OpError
            raise PredictFailed(first_line(error)) from error

    def _predict_traced(self, inputs: Tensors, options: Any, metadata: Any) -> Tensors:
        assert self._twin is not None
        return self._predict(self._twin.call, inputs, options, metadata)

    def _compiled(self, inputs: Tensors) -> Program:
        """Return what XLA made of the model. Raises PredictFailed."""
        if self._program is None:
            assert self._model.compiled is not None
            arrays = [self._checked(inputs, name) for name in self._inputs]
            self._program = program_of(self._model.compiled(arrays), f"XLA {self._options.device}")
        return self._program

    def _checked(self, inputs: Tensors, name: str) -> Any:
        """Return an input's array: a session would cast one of another type without a word."""
        array = inputs.get(name)
        if array is None:
            raise PredictFailed(f"input {name} is missing")
        wanted = self._inputs[name][0]
        if array.dtype.name != wanted:
            raise PredictFailed(f"input {name} is {array.dtype.name}, the model takes {wanted}")
        return array

    def _opened(self) -> Opened:
        on_gpu = self._options.device.startswith("GPU")
        precision = self._model.precision
        if on_gpu and precision == "float32" and self._options.allow_tf32:
            precision = "float32 (tf32 allowed)"
        if not on_gpu and os.environ.get("TF_SET_ONEDNN_FPMATH_MODE", "") == "bf16":
            precision += " (bfloat16 allowed)"
        return Opened(
            framework="tensorflow",
            framework_version=tf.__version__,
            inputs=self._model.inputs,
            outputs=self._model.outputs,
            device="gpu" if on_gpu else "cpu",
            provider=f"{self._options.device}{' XLA' if self._options.jit_compile else ''}",
            precision=precision,
            threads=tf.config.threading.get_intra_op_parallelism_threads(),
            options=self._options.as_given(),
            deepest_level=Level.FRAMEWORK,
        )


def _scope(device: str) -> contextlib.AbstractContextManager[Any]:
    """Return what places a call's tensors: none where there is just one device to choose."""
    if len(tf.config.list_logical_devices()) == 1:
        return contextlib.nullcontext()
    return tf.device(f"/{device}")  # type: ignore[no-any-return]


def _set_up(options: Options) -> None:
    """Set what is the process's own: one worker opens one model. Raises OpenFailed."""
    threading = tf.config.threading
    wanted = (options.threads, options.inter_threads)
    found = (
        threading.get_intra_op_parallelism_threads(),
        threading.get_inter_op_parallelism_threads(),
    )
    try:
        if found != wanted:
            threading.set_intra_op_parallelism_threads(options.threads)
            threading.set_inter_op_parallelism_threads(options.inter_threads)
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(
                gpu, True
            )  # else it takes a GPU's memory whole
    except RuntimeError as error:
        # Possible once a process, before any work: the second model of a test's.
        raise OpenFailed("tensorflow", f"threads: {first_line(error)}") from error
    tf.config.experimental.enable_tensor_float_32_execution(options.allow_tf32)


def _in_numpy(array: Any) -> Any:
    # NumPy has no bfloat16 of its own: what follows could not compute with it.
    # A type's name costs a microsecond, its kind nothing; V is what types of other packages have.
    if array.dtype.kind == "V" and array.dtype.name == "bfloat16":
        return array.astype("float32")
    return array
