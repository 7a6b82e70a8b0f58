"""One network in six forms: whether they give the same answers.

EfficientNet-Lite0 from its published PyTorch weights, as TorchScript, ONNX (the shipped export),
OpenVINO (which reads the ONNX), a TensorFlow SavedModel and LiteRT, on every shipped photo,
beside PyTorch itself. TensorFlow's is written here from the same parameters; LiteRT's is
converted from it. Claim: the first class is the same everywhere, on every photo.

Each framework runs in a process of its own, by the agent's own predictor.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from mlscope.assets.addresses import PackageSource
from mlscope.assets.packages import installed_file
from mlscope.manifests.reading import read_manifest_text
from schemas.manifest import Assets, DatasetManifest, ModelManifest
from services.agent.link.checked_files import source_of
from services.agent.predictors import OpenRequest, predictor_named
from services.agent.worker.queries.pipeline import pipeline_of, steps_of

MANIFESTS = Path(__file__).parents[1] / "manifests"
REFERENCE = "pytorch"
FILES = {
    "pytorch": "",
    "torchscript": "net.ts",
    "onnxruntime": "net.onnx",
    "openvino": "net.onnx",
    "tensorflow": "saved_model",
    "litert": "net.tflite",
}
"""What each framework opens, beside PyTorch's builder."""
_CHANNELS_LAST = ("tensorflow", "litert")

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Row:
    """How one framework's answers compare with PyTorch's, over all photos."""

    framework: str
    same_first: int
    photos: int
    largest_difference: float


def read_model(path: str) -> ModelManifest:
    """Return a shipped model."""
    text = (MANIFESTS / "models" / path).read_text("utf-8")
    manifest = read_manifest_text(text, path)
    assert isinstance(manifest, ModelManifest)
    return manifest


def photos() -> Array:
    """Return every shipped photo through the manifest's steps: (photos, 3, 224, 224)."""
    text = (MANIFESTS / "datasets" / "photos.yml").read_text("utf-8")
    dataset = read_manifest_text(text, "photos.yml")
    assert isinstance(dataset, DatasetManifest)
    model = read_model("efficientnet_lite0.yml")
    (port,) = pipeline_of(steps_of(model), lambda _: ("",)).before
    prepared = []
    for sample in dataset.samples:
        value: Any = (MANIFESTS / "datasets" / sample.path).read_bytes()
        for step in port.steps:
            value = step.apply(value)
        prepared.append(value)
    return np.stack(prepared)


def weights(model: ModelManifest) -> Path:
    """Return where a model's published weights are installed."""
    source = source_of(model.model, model.model.weights_path)
    assert isinstance(source, PackageSource)
    path = installed_file(source)
    assert path is not None, f"{source.requirement} is not installed"
    return path


def make(folder: Path) -> None:
    """Write the network for every framework, all from the same weights."""
    in_pytorch(folder)
    in_onnx(folder)
    in_tensorflow(folder)


def published_network() -> Any:
    """Return the network with its published weights, in PyTorch."""
    torch: Any = import_module("torch")
    model = read_model("packages/efficientnet-lite0-pytorch.yml")
    network = import_module("efficientnet_lite_pytorch").EfficientNet.from_name(
        **model.model.arguments
    )
    network.load_state_dict(torch.load(weights(model), weights_only=True))
    return network.eval()


def in_pytorch(folder: Path) -> None:
    """Write the network as TorchScript."""
    torch: Any = import_module("torch")
    with torch.inference_mode():
        traced = torch.jit.trace(published_network(), torch.zeros(1, 3, 224, 224))
    traced.save(str(folder / FILES["torchscript"]))


def in_onnx(folder: Path) -> None:
    """Write the shipped export of the network to ONNX."""
    shipped = MANIFESTS / "models" / "efficientnet_lite0" / "model.onnx"
    (folder / FILES["onnxruntime"]).write_bytes(shipped.read_bytes())


def in_tensorflow(folder: Path) -> None:
    """Write the network as a SavedModel and for LiteRT."""
    network = published_network()
    tf: Any = import_module("tensorflow")
    module = tf.Module()
    shape = tf.TensorSpec((None, 224, 224, 3), tf.float32, name="images")
    module.call = tf.function(partial(forward, tf, network), input_signature=[shape])
    concrete = module.call.get_concrete_function()
    target = folder / FILES["tensorflow"]
    tf.saved_model.save(module, str(target), signatures={"serving_default": concrete})
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], module)
    (folder / FILES["litert"]).write_bytes(converter.convert())


def forward(tf: Any, network: Any, images: Any) -> dict[str, Any]:
    """Compute EfficientNet-Lite in TensorFlow, (n, h, w, 3), with a PyTorch network's numbers."""
    parts = dict(network.named_children())
    hidden = tf.nn.relu6(convolved(tf, images, parts["_conv_stem"], parts["_bn0"]))
    for block in parts["_blocks"]:
        inside = dict(block.named_children())
        inner = hidden
        if "_expand_conv" in inside:
            inner = tf.nn.relu6(convolved(tf, inner, inside["_expand_conv"], inside["_bn0"]))
        inner = tf.nn.relu6(convolved(tf, inner, inside["_depthwise_conv"], inside["_bn1"]))
        inner = convolved(tf, inner, inside["_project_conv"], inside["_bn2"])
        hidden = inner + hidden if inner.shape == hidden.shape else inner
    hidden = tf.nn.relu6(convolved(tf, hidden, parts["_conv_head"], parts["_bn1"]))
    mean = tf.reduce_mean(hidden, (1, 2))
    return {"logits": mean @ numbers(parts["_fc"].weight).T + numbers(parts["_fc"].bias)}


def convolved(tf: Any, images: Any, convolution: Any, norm: Any) -> Any:
    """Return images through a convolution, TensorFlow's SAME, and a norm."""
    kernel = numbers(convolution.weight).transpose(2, 3, 1, 0)
    stride = int(convolution.stride[0])
    if convolution.groups > 1:
        kernel = kernel.transpose(0, 1, 3, 2)
        answer = tf.nn.depthwise_conv2d(images, kernel, (1, stride, stride, 1), "SAME")
    else:
        answer = tf.nn.conv2d(images, kernel, stride, "SAME")
    scale = numbers(norm.weight) / np.sqrt(numbers(norm.running_var) + norm.eps)
    return answer * scale + (numbers(norm.bias) - numbers(norm.running_mean) * scale)


def numbers(tensor: Any) -> Array:
    """Return a PyTorch tensor's numbers."""
    return np.asarray(tensor.detach().numpy())


def request(framework: str, folder: Path, batch_size: int) -> OpenRequest:
    """Return what opens the network in a framework."""
    model = read_model("packages/efficientnet-lite0-pytorch.yml")
    (image,), (logits,) = model.inputs, model.outputs
    shape = (-1, 224, 224, 3) if framework in _CHANNELS_LAST else image.shape
    ports = {
        "inputs": (image.model_copy(update={"layer_name": "images", "shape": shape}),),
        "outputs": (logits.model_copy(update={"layer_name": "logits"}),),
    }
    options = {"threads": 1}
    if framework == REFERENCE:
        opened = model.model_copy(update=ports)
        return OpenRequest(
            opened, Path(), b"", batch_size, options=options, weights_path=weights(model)
        )
    path = folder / FILES[framework]
    opened = model.model_copy(update={**ports, "model": Assets(graph_path=FILES[framework])})
    graph = b"" if path.is_dir() else path.read_bytes()
    return OpenRequest(opened, path, graph, batch_size, options=options)


def predict(framework: str, folder: Path) -> None:
    """Write a framework's logits (photos, 1000) of every photo."""
    images = photos()
    if framework in _CHANNELS_LAST:
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    name = REFERENCE if framework == "torchscript" else framework
    predictor = predictor_named(name)(request(framework, folder, len(images)))
    answer = predictor.predict({predictor.opened.inputs[0].name: images})
    np.save(folder / f"{framework}.npy", np.array(next(iter(answer.values()))))
    predictor.close()


def rows(logits: Mapping[str, Array]) -> list[Row]:
    """Return each framework's row, PyTorch's being what they are compared with."""
    reference = logits[REFERENCE]
    return [
        Row(
            framework,
            int((logits_of_framework.argmax(axis=1) == reference.argmax(axis=1)).sum()),
            len(reference),
            float(np.abs(logits_of_framework - reference).max()),
        )
        for framework, logits_of_framework in logits.items()
    ]


def compare() -> list[Row]:
    """Make the network, run it in every framework, and return how they compare."""
    with TemporaryDirectory(prefix="consistency-") as name:
        folder = Path(name)
        for arguments in (["make"], *(["predict", framework] for framework in FILES)):
            command = [sys.executable, "-m", "benchmarks.consistency", *arguments, str(folder)]
            subprocess.run(command, check=True, capture_output=True)
        return rows({name: np.load(folder / f"{name}.npy") for name in FILES})


def main() -> None:
    """Print the table; the exit code is 1 where first classes differ."""
    if len(sys.argv) > 2:
        verb, *framework, folder = sys.argv[1:]
        steps: dict[str, Callable[..., None]] = {
            "make": make,
            "make-onnx": in_onnx,
            "make-pytorch": in_pytorch,
            "make-tensorflow": in_tensorflow,
            "predict": predict,
        }
        steps[verb](*framework, Path(folder))
        return
    print("framework     same first class   largest difference of a logit")
    compared = compare()
    for row in compared:
        same = f"{row.same_first} of {row.photos}"
        print(f"{row.framework:13} {same:>16}   {row.largest_difference:.2e}")
    sys.exit(any(row.same_first < row.photos for row in compared))


if __name__ == "__main__":
    main()
