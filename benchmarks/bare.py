"""Frameworks called bare: what their own documentation would write for one input array."""

import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks import resnets, shells
from services.agent.predictors import OpenRequest

Call = Callable[[Any], Any]
"""From the input array to arrays."""


def identity(seed: int = 0) -> Call:  # noqa: ARG001
    """Build JAX's Identity."""
    return lambda x: x


def torch_resnet() -> str:
    """Return the builder of torchvision's ResNet-50, or of our own where that can't be imported."""
    try:
        import torchvision.models  # noqa: F401
    except (ImportError, RuntimeError):  # the latter is a torchvision of another torch
        return "benchmarks.resnets.torch_network"
    return "torchvision.models.resnet50"


def keras_identity() -> Any:
    """Build Keras' Identity."""
    import keras

    rows = keras.layers.Input((4,), name="x")
    return keras.Model(rows, keras.layers.Activation("linear")(rows))


def bare_onnxruntime(request: OpenRequest) -> Call:
    """Return a plain session's `run`."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = 1
    provider = "CUDAExecutionProvider" if request.device == "gpu" else "CPUExecutionProvider"
    session = ort.InferenceSession(request.graph, settings, providers=[provider])
    name = session.get_inputs()[0].name
    return lambda array: session.run(None, {name: array})


def bare_openvino(request: OpenRequest) -> Call:
    """Return a compiled model's call."""
    import openvino as ov

    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.Core().compile_model(ov.Core().read_model(request.graph, b""), "CPU", settings)
    return lambda array: compiled([array], share_inputs=True, share_outputs=True)


def bare_litert(request: OpenRequest) -> Call:
    """Return an interpreter's three steps."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=request.graph, num_threads=1)
    interpreter.allocate_tensors()
    input_index = interpreter.get_input_details()[0]["index"]
    output_index = interpreter.get_output_details()[0]["index"]

    def call(array: Any) -> Any:
        interpreter.set_tensor(input_index, array)
        interpreter.invoke()
        return interpreter.get_tensor(output_index)

    return call


def bare_pytorch(request: OpenRequest) -> Call:
    """Return a module's call in inference mode, there and back."""
    import torch

    module_path, _, name = request.model.model.builder.rpartition(".")
    module = getattr(sys.modules[module_path], name)(**request.model.model.arguments).eval()
    device = "cuda" if request.device == "gpu" else "cpu"
    return called(module.to(device), device, torch)


def called(module: Any, device: str, torch: Any) -> Call:
    """Return how one calls a PyTorch module."""

    def call(array: Any) -> Any:
        with torch.inference_mode():
            return module(torch.from_numpy(array).to(device)).cpu().numpy()

    return call


def bare_jax(request: OpenRequest) -> Call:
    """Return a jitted function's call, its answer on the host."""
    import jax

    place = jax.devices("gpu" if request.device == "gpu" else "cpu")[0]
    small = {"identity": identity, "jax_shell": shells.jax_shell}
    if (name := request.model.model.builder.rpartition(".")[2]) in small:
        call = jax.jit(small[name]())
        return lambda array: np.asarray(call(array))
    function, parameters = resnets.jax_network()
    on_device, call = jax.device_put(parameters, place), jax.jit(function)
    return lambda array: np.asarray(call(on_device, array))


def bare_tensorflow(request: OpenRequest) -> Call:
    """Return a Keras model's graph function."""
    import keras
    import tensorflow as tf

    small = {"keras_identity": keras_identity, "keras_shell": shells.keras_shell}
    small_model = small.get(request.model.model.builder.rpartition(".")[2])
    model = small_model() if small_model else keras.applications.ResNet50(weights=None)
    call = tf.function(lambda x: model(x, training=False))
    return lambda array: call(tf.constant(array)).numpy()


CALLS: Mapping[str, Callable[[OpenRequest], Call]] = MappingProxyType(
    {
        "onnxruntime": bare_onnxruntime,
        "openvino": bare_openvino,
        "litert": bare_litert,
        "pytorch": bare_pytorch,
        "jax": bare_jax,
        "tensorflow": bare_tensorflow,
    }
)
"""By framework: given a request, a bare call of its model."""
