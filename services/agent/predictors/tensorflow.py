"""TensorFlow: SavedModels, frozen graphs in a v1 session, and Keras files and builders.

Keras files are read in safe mode: no pickled code runs. A SavedModel is a program: what its graph
does, reading a file included, happens; its checksum is what speaks for it. GPU: unverified.
"""

import gc
import os
from typing import Any

import tensorflow as tf

from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.errors import AgentError, OpenFailed, PredictFailed
from services.agent.predictors import Opened, OpenRequest, Tensors
from services.agent.predictors.shapes import first_line, zeros
from services.agent.predictors.tensorflow_models import Loaded, form_of, loaded
from services.agent.predictors.tensorflow_options import Options, options_of


def open_model(request: OpenRequest) -> "TensorFlowPredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    form = form_of(request)
    found = [d.name.removeprefix("/physical_device:") for d in tf.config.list_physical_devices()]
    options = options_of(request.options, request.device, form, found)
    _set_up(options)
    started = now_ns()
    try:
        with tf.device(f"/{options.device}"):
            model = loaded(request, form, options)
    except AgentError:
        raise
    except Exception as error:  # TensorFlow, Keras and builders raise what they like
        raise OpenFailed(request.model.name, first_line(error)) from error
    predictor = TensorFlowPredictor(request, options, model, now_ns() - started)
    predictor.first_run()
    return predictor


class TensorFlowPredictor:
    """An opened TensorFlow model."""

    def __init__(self, request: OpenRequest, options: Options, model: Loaded, load_ns: int) -> None:
        self._request = request
        self._options = options
        self._model = model
        self._load_ns = load_ns
        self._call = model.call
        self._inputs = {place.name: (place.element_type, place) for place in model.inputs}
        self._outputs = [place.name for place in model.outputs]
        self._place = f"/{options.device}"
        self.opened = self._opened(0)

    def first_run(self) -> None:
        """Predict zeros once: what XLA compiles does so now. Raises OpenFailed."""
        request = self._request
        filled = zeros(self.opened.inputs, request.model.inputs, request.batch_size)
        started = now_ns()
        try:
            self.predict(filled)
        except PredictFailed as error:
            raise OpenFailed(request.model.name, str(error)) from error
        self.opened = self._opened(now_ns() - started)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        try:
            arrays = [self._checked(inputs, name) for name in self._inputs]
            with tf.device(self._place):
                answers = self._call(arrays)
            return {
                name: _in_numpy(each) for name, each in zip(self._outputs, answers, strict=True)
            }
        except PredictFailed:
            raise
        except Exception as error:  # a session raises ValueError, TypeError and OpError
            raise PredictFailed(first_line(error)) from error

    def close(self) -> None:
        """Close a session, and let the model go."""
        if isinstance(self._model.session, tf.compat.v1.Session):
            self._model.session.close()
        del self._model, self._call
        gc.collect()

    def _checked(self, inputs: Tensors, name: str) -> Any:
        """Return an input's array: a session would cast one of another type without a word."""
        array = inputs.get(name)
        if array is None:
            raise PredictFailed(f"input {name} is missing")
        wanted = self._inputs[name][0]
        if array.dtype.name != wanted:
            raise PredictFailed(f"input {name} is {array.dtype.name}, the model takes {wanted}")
        return array

    def _opened(self, first_run_ns: int) -> Opened:
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
            load_ns=self._load_ns,
            first_run_ns=first_run_ns,
            deepest_level=Level.MODEL,
        )


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
    return array.astype("float32") if array.dtype.name == "bfloat16" else array
