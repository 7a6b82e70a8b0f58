"""TensorFlow: SavedModels, frozen graphs in a v1 session, and Keras files and builders.

Keras files are read in safe mode, so no pickled code runs. A SavedModel is a program: whatever its
graph contains is executed, such as reading a file; only its checksum protects against that. The GPU
path is unverified.
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
from services.agent.errors import OpenFailed, PredictFailed
from services.agent.predictors import LayerCapture, Opened, OpenRequest, Tensors
from services.agent.predictors.boundary import PREDICTING, opening_model
from services.agent.predictors.opening import Opening
from services.agent.predictors.page_locking import PAGEABLE
from services.agent.predictors.shapes import first_line, without_bfloat16
from services.agent.predictors.tensorflow.layers import NodeNames, TracedCapture, Twin
from services.agent.predictors.tensorflow.models import Loaded, form_of, load
from services.agent.predictors.tensorflow.options import Options, options_of
from services.agent.predictors.tensorflow.xla import XlaCapture
from services.agent.predictors.xla.program import Program, program_of


def open_model(request: OpenRequest) -> "TensorFlowPredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    form = form_of(request)
    devices = [
        device.name.removeprefix("/physical_device:")
        for device in tf.config.list_physical_devices()
    ]
    options = options_of(request.options, request.device, form, devices)
    _set_up_process(options)
    opening = Opening(request)
    with opening_model(request.model.name), tf.device(f"/{options.device}"):
        model = load(request, form, options)
    predictor = TensorFlowPredictor(options, model, request.scratch)
    opening.mark_loaded()
    opening.run_first(predictor)
    predictor.note_memory()
    return predictor


class TensorFlowPredictor:
    """An opened TensorFlow model."""

    def __init__(self, options: Options, model: Loaded, scratch: Path) -> None:
        """Hold a `model` loaded by these `options`; profiles are written into `scratch`."""
        self._options = options
        self._scratch = scratch
        #: the session that layers are traced in, opened by the first capture
        self._twin: Twin | None = None
        self._names = NodeNames(options.device)
        self._program: Program | None = None
        self._model = model
        self._call = model.call
        self._inputs = {place.name: (place.element_type, place) for place in model.inputs}
        self._outputs = [place.name for place in model.outputs]
        # A call's tensors need a device only where there are several.
        self._device_context: contextlib.AbstractContextManager[Any] = (
            contextlib.nullcontext()
            if len(tf.config.list_logical_devices()) == 1
            else tf.device(f"/{options.device}")
        )
        on_gpu = options.device.startswith("GPU")
        precision = model.precision
        if on_gpu and precision == "float32" and options.allow_tf32:
            precision = "float32 (tf32 allowed)"
        if not on_gpu and os.environ.get("TF_SET_ONEDNN_FPMATH_MODE", "") == "bf16":
            precision += " (bfloat16 allowed)"
        self.opened = Opened(
            framework="tensorflow",
            framework_version=tf.__version__,
            inputs=model.inputs,
            outputs=model.outputs,
            device="gpu" if on_gpu else "cpu",
            provider=f"{options.device}{' XLA' if options.jit_compile else ''}",
            precision=precision,
            threads=tf.config.threading.get_intra_op_parallelism_threads(),
            options=options.by_name(),
            deepest_level=Level.FRAMEWORK,
            # It is fed arrays and returns new ones; neither can be page-locked.
            host_memory=PAGEABLE if on_gpu else "",
            output_memory=PAGEABLE if on_gpu else "",
        )

    def note_memory(self) -> None:
        """Add the GPU memory that TensorFlow uses now to `opened`."""
        device = self._options.device
        if device.startswith("GPU"):
            used_bytes = int(tf.config.experimental.get_memory_info(device)["current"])
            self.opened = replace(self.opened, device_memory_bytes=used_bytes)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        return self._predict(self._call, inputs)

    def layers(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin a capture of layers. Raises OpenFailed, PredictFailed."""
        with opening_model("layers"):
            if self._model.twin is None:
                program = program_of("", "XLA")  # nothing is compiled before the first run
                if warmed_with and self._program is None and self._model.hlo_text is not None:
                    arrays = [self._checked_input(warmed_with[0], name) for name in self._inputs]
                    text = self._model.hlo_text(arrays)
                    self._program = program_of(text, f"XLA {self._options.device}")
                if warmed_with and self._program is not None:
                    program = self._program
                return XlaCapture(program, self.predict, warmed_with, self._scratch)
            if self._twin is None:
                with tf.device(f"/{self._options.device}"):
                    self._twin = self._model.twin()
                self._names = NodeNames(self._options.device, self._twin.details)
        call = self._twin.call

        def predict_traced(inputs: Tensors, options: Any, metadata: Any) -> Tensors:
            return self._predict(call, inputs, options, metadata)

        return TracedCapture(self._names, predict_traced, warmed_with)

    def close(self) -> None:
        """Close the sessions and free the model."""
        if isinstance(self._model.session, tf.compat.v1.Session):
            self._model.session.close()
        if self._twin is not None:
            self._twin.session.close()
            self._twin = None
        del self._model, self._call
        gc.collect()

    def _predict(self, call: Any, inputs: Tensors, *trace_arguments: Any) -> Tensors:
        with PREDICTING:
            arrays = [self._checked_input(inputs, name) for name in self._inputs]
            with self._device_context:
                outputs = call(arrays, *trace_arguments)
            return {
                name: without_bfloat16(output)
                for name, output in zip(self._outputs, outputs, strict=True)
            }

    def _checked_input(self, inputs: Tensors, name: str) -> Any:
        """Return an input's array, of the model's type: a session would silently cast another."""
        array = inputs.get(name)
        if array is None:
            raise PredictFailed(f"input {name} is missing")
        element_type = self._inputs[name][0]
        if array.dtype.name != element_type:
            raise PredictFailed(
                f"input {name} is {array.dtype.name}, but the model takes {element_type}"
            )
        return array


def _set_up_process(options: Options) -> None:
    """Apply the options that hold for a process: one worker opens one model. Raises OpenFailed."""
    threading = tf.config.threading
    current_threads = (
        threading.get_intra_op_parallelism_threads(),
        threading.get_inter_op_parallelism_threads(),
    )
    try:
        if current_threads != (options.threads, options.inter_threads):
            threading.set_intra_op_parallelism_threads(options.threads)
            threading.set_inter_op_parallelism_threads(options.inter_threads)
        for gpu in tf.config.list_physical_devices("GPU"):
            # Otherwise TensorFlow reserves all of the GPU's memory.
            tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError as error:
        # TensorFlow allows this only before its first work in a process.
        raise OpenFailed("tensorflow", f"threads: {first_line(error)}") from error
    tf.config.experimental.enable_tensor_float_32_execution(options.allow_tf32)
