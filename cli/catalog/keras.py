"""Keras applications: every model, with the weights' addresses and MD5 checksums Keras carries."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from cli.catalog.entries import IMAGENET_LABELS, Entry, LabelFiles, Picture

_PREFIX = "keras.src.applications."
_CAFFE = ("resnet", "vgg16", "vgg19")
_PLAIN = ("efficientnet", "efficientnet_v2", "convnext", "mobilenet_v3")
_TORCH = ("densenet",)
_ALGORITHMS = {32: "md5", 64: "sha256"}
"""By digits: Keras' tables hold both kinds."""


def entries(keras: Any, labels: LabelFiles) -> Iterator[Entry]:
    """Yield every application, by name; each is built once, without weights, to be counted."""
    for name in sorted(dir(keras.applications)):
        builder = getattr(keras.applications, name)
        if name[0].isupper() and callable(builder):
            yield _entry(keras, name, builder, labels)


def package(keras: Any) -> str:
    """Return what the entries come from."""
    return f"Keras {keras.__version__}"


def _entry(keras: Any, name: str, builder: Any, labels: LabelFiles) -> Entry:
    part = builder.__module__.removeprefix(_PREFIX)
    model = builder(weights=None)
    _, height, width, channels = model.input_shape
    height, width = height or 224, width or 224
    keras.backend.clear_session()
    return Entry(
        name=f"keras-{name.lower()}",
        task="image classification",
        description=f"{name} of Keras applications, trained on ImageNet.",
        framework="tensorflow",
        framework_version=">=2.16",
        license="Apache-2.0",
        inputs=[_input(part, channels, height, width)],
        outputs=[_output(model.output_shape[-1])],
        model={
            **_weights(import_module(builder.__module__), name),
            "builder": f"keras.applications.{name}",
            "arguments": {"weights": None},
            "assets": labels.imagenet(),
        },
        attributes={
            "parameters": model.count_params(),
            "training_dataset": "ImageNet-1K",
        },
        references=_references(builder),
        dataset="photos",
    )


def _input(part: str, channels: int, height: int, width: int) -> dict[str, Any]:
    mean, deviation = _normalized(part)
    picture = Picture(channels, height, width, 0, mean, deviation, layout="NHWC")
    steps = picture.steps()
    if part in _CAFFE:
        steps[0]["color_mode"] = "BGR"
    return {
        "type": "image",
        "layer_name": "x",
        "element_type": "float32",
        "shape": picture.shape(),
        "steps": steps,
    }


def _output(classes: int) -> dict[str, Any]:
    return {
        "type": "classification",
        "layer_name": "predictions",
        "element_type": "float32",
        "shape": [-1, classes],
        "steps": [{"topk": None, "k": 5, "labels": IMAGENET_LABELS}],
    }


def _normalized(part: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation, for pixels from 0 to 1, of an application's preprocess_input."""
    if part in _CAFFE:
        return tuple(each / 255 for each in (103.939, 116.779, 123.68)), (1 / 255,) * 3
    if part in _TORCH:
        return (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    if part in _PLAIN:
        return (0.0,) * 3, (1 / 255,) * 3
    return (0.5,) * 3, (0.5,) * 3


def _weights(module: Any, name: str) -> dict[str, Any]:
    """Return the address and checksum that a module's tables hold for a model, {} for none."""
    base = getattr(module, "BASE_WEIGHTS_PATH", "")
    table = getattr(module, "WEIGHTS_HASHES", {})
    for key, hashes in table.items():
        if _same(key, name) and base:
            checksum = hashes[0] if isinstance(hashes, tuple | list) else hashes
            return {
                "base_url": base,
                "weights_path": _file(module, key),
                "weights_checksum": f"{_ALGORITHMS[len(checksum)]}:{checksum}",
            }
    return {}


def _same(key: str, name: str) -> bool:
    plain = name.lower().replace("_", "")
    wanted = key.lower().replace("-", "").replace("_", "")
    return plain == wanted or plain == f"efficientnet{wanted}" or plain == f"efficientnetv2{wanted}"


def _file(module: Any, key: str) -> str:
    """Return the weights' file name, as the module's own code writes it."""
    part = module.__name__.removeprefix(_PREFIX)
    if part == "efficientnet":
        return f"efficientnet{key}.h5"
    if part == "efficientnet_v2":
        return f"efficientnetv2-{key.removeprefix('-')}.h5"
    if part == "convnext":
        return f"{key}.h5"
    return f"{key}_weights_tf_dim_ordering_tf_kernels.h5"


def _references(builder: Any) -> list[str]:
    text = inspect.getdoc(builder) or ""
    start = text.find("https://arxiv.org/abs/")
    return [text[start:].split(")")[0].split()[0]] if start >= 0 else []
