"""What a predictor adds to its framework: `predict` beside the framework called bare.

`python -m benchmarks.predict [--device cpu|gpu] [--calls 300] [--rounds 7] [FRAMEWORK …]`

Identity and a ResNet-50 (random weights; EfficientNet-Lite0 where a framework has no ResNet-50
here), batch 1, from an array of the host to arrays of the host. Bare is what the framework's own
documentation would write. Rounds of both alternate; a case's figure is the median over the rounds
of the difference of their medians. Wanted: 10 us or less over bare. Frameworks that are not
installed are named and left out.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import yaml

from schemas.manifest import Assets, ModelManifest
from services.agent.errors import AgentError
from services.agent.predictors import OpenRequest, predictor_named

MODELS = Path(__file__).parents[1] / "manifests" / "models"
WANTED_US = 10.0
SHAPE = (3, 224, 224)
BUILDERS = ("torch.nn", "torchvision.models", "keras.applications", "benchmarks.predict")

Bare = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """One model on one framework: how we open it, and how its framework would be called."""

    framework: str
    name: str
    request: OpenRequest
    #: given the request, returns the bare call, from the input array to arrays
    bare: Callable[[OpenRequest], Bare]


def built(
    framework: str, builder: str, shape: tuple[int, ...], device: str, **more: Any
) -> OpenRequest:
    """Return a request for a builder's model with random weights."""
    model = ModelManifest.model_validate(
        {
            "name": builder.rpartition(".")[2],
            "version": "1.0.0",
            "framework": {"name": framework},
            "inputs": [{"type": "raw", "layer_name": "x", "shape": [-1, *shape]}],
            "outputs": [{"type": "raw", "layer_name": "y"}],
            "model": Assets(builder=builder, weights="random", **more),
        }
    )
    options = {"threads": 1} if device == "cpu" else {}
    return OpenRequest(model, Path(), b"", 1, device, options, builders=BUILDERS)


def shipped(framework: str, name: str) -> OpenRequest:
    """Return a request for a shipped ONNX model."""
    model = ModelManifest.model_validate(yaml.safe_load((MODELS / f"{name}.yml").read_text()))
    path = MODELS / name / "model.onnx"
    body = path.read_bytes()
    return OpenRequest(model, path, body, 1, options={"threads": 1}, builders=(framework,))


def identity(seed: int = 0) -> Callable[[Any], Any]:  # noqa: ARG001
    """Build JAX's Identity."""
    return lambda x: x


def bare_onnxruntime(request: OpenRequest) -> Bare:
    """Return a plain session's `run`."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = 1
    session = ort.InferenceSession(request.graph, settings, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda array: session.run(None, {name: array})


def bare_openvino(request: OpenRequest) -> Bare:
    """Return a compiled model's call."""
    import openvino as ov

    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.Core().compile_model(ov.Core().read_model(request.graph, b""), "CPU", settings)
    return lambda array: compiled([array], share_inputs=True, share_outputs=True)


def bare_pytorch(request: OpenRequest) -> Bare:
    """Return a module's call in inference mode, there and back."""
    import torch

    module_path, _, name = request.model.model.builder.rpartition(".")
    module = getattr(sys.modules[module_path], name)(**request.model.model.arguments).eval()
    device = "cuda" if request.device == "gpu" else "cpu"
    module = module.to(device)

    def call(array: Any) -> Any:
        with torch.inference_mode():
            return module(torch.from_numpy(array).to(device)).cpu().numpy()

    return call


def bare_jax(request: OpenRequest) -> Bare:
    """Return a jitted function's call, its answer on the host."""
    import jax

    place = jax.devices("gpu" if request.device == "gpu" else "cpu")[0]
    call = jax.jit(identity())
    return lambda array: np.asarray(call(jax.device_put(array, place)))


def bare_tensorflow(request: OpenRequest) -> Bare:
    """Return a Keras model's graph function."""
    import keras
    import tensorflow as tf

    model = getattr(keras.applications, request.model.model.builder.rpartition(".")[2])(
        weights=None
    )
    call = tf.function(lambda x: model(x, training=False))
    return lambda array: call(tf.constant(array)).numpy()


def cases(device: str) -> Iterator[Case]:
    """Yield every case a device has."""
    if device == "cpu":
        for framework, bare in (("onnxruntime", bare_onnxruntime), ("openvino", bare_openvino)):
            for name in ("identity", "efficientnet_lite0"):
                yield Case(framework, name, shipped(framework, name), bare)
    for name, builder, shape, arguments in (
        ("identity", "torch.nn.Identity", (4,), {}),
        ("resnet50", "torchvision.models.resnet50", SHAPE, {"weights": None}),
    ):
        request = built("pytorch", builder, shape, device, arguments=arguments)
        yield Case("pytorch", name, request, bare_pytorch)
    yield Case(
        "jax", "identity", built("jax", "benchmarks.predict.identity", (4,), device), bare_jax
    )
    if device == "cpu":
        request = built(
            "tensorflow",
            "keras.applications.ResNet50",
            (224, 224, 3),
            device,
            arguments={"weights": None},
        )
        yield Case("tensorflow", "resnet50", request, bare_tensorflow)


def timed_us(call: Callable[[], Any], calls: int) -> float:
    """Return the median time of a call."""
    stamps = np.empty(calls + 1, np.int64)
    stamps[0] = time.monotonic_ns()
    for index in range(calls):
        call()
        stamps[index + 1] = time.monotonic_ns()
    return float(np.median(np.diff(stamps))) / 1e3


def measure(case: Case, calls: int, rounds: int) -> bool:
    """Print one case; return whether the claim holds."""
    predictor = predictor_named(case.framework)(case.request)
    place = predictor.opened.inputs[0]
    shape = (1, *(max(size, 1) for size in place.shape[1:]))
    array = np.random.default_rng(1).standard_normal(shape, np.float32)
    inputs = {place.name: array}
    bare = case.bare(case.request)
    calls = max(10, calls // 10) if case.name != "identity" else calls
    both = (lambda: bare(array), lambda: predictor.predict(inputs))
    for call in both:
        timed_us(call, 10)
    theirs, ours = [], []
    for turn in range(rounds):
        order = both if turn % 2 == 0 else both[::-1]
        found = [timed_us(call, calls) for call in order]
        first, second = found if turn % 2 == 0 else found[::-1]
        theirs.append(first)
        ours.append(second)
    over = median(b - a for a, b in zip(theirs, ours, strict=True))
    predictor.close()
    print(
        f"{case.framework:12} {case.name:20} {median(theirs):11.1f} {median(ours):11.1f} "
        f"{over:9.2f}  {'holds' if over <= WANTED_US else 'MISSED'}",
        flush=True,
    )
    return over <= WANTED_US


def main() -> int:
    """Measure every case; return how many missed the claim."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("frameworks", nargs="*")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(f"batch 1 on {options.device}, medians of {options.rounds} rounds [us]")
    print(f"{'':33} {'bare':>11} {'predictor':>11} {'over':>9}  claim <= {WANTED_US:g}")
    missed = 0
    for case in cases(options.device):
        if options.frameworks and case.framework not in options.frameworks:
            continue
        try:
            missed += not measure(case, options.calls, options.rounds)
        except (AgentError, ImportError) as error:
            print(f"{case.framework:12} {case.name:20} left out: {error}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
