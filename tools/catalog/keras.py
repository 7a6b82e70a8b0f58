"""Keras applications: every model, with the weights' addresses and checksums Keras carries."""

import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tools.catalog.entries import IMAGENET_LABELS, Entry, LabelFiles, Picture

_PREFIX = "keras.src.applications."
_CAFFE = ("resnet", "vgg16", "vgg19")
_PLAIN = ("efficientnet_v2", "convnext", "mobilenet_v3")
_TORCH = ("densenet",)
_ROOTED = ("efficientnet",)
"""Built with their published weights alone, they divide by the deviation's root once more."""

_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_VERSION, _CORRECTED = "1.0.0", "1.1.0"
_FIRST = ("convnext", "efficientnet_v2", "mobilenet", "mobilenet_v2", "resnet")
"""Parts whose manifests are as they first were; of the others a later version corrects one."""

_ALGORITHMS = {32: "md5", 64: "sha256"}
"""By digits: Keras holds both kinds."""


@dataclass
class _WeightsRequested(Exception):
    """Keras asks for a file of weights."""

    origin: str
    file_hash: str


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
    text = inspect.getdoc(builder) or ""
    start = text.find("https://arxiv.org/abs/")
    return Entry(
        name=f"keras-{name.lower()}",
        task="image classification",
        description=f"{name} of Keras applications, trained on ImageNet.",
        framework="tensorflow",
        framework_version=">=2.16",
        version=_VERSION if part in _FIRST else _CORRECTED,
        license="Apache-2.0",
        inputs=[input_of(part, channels, height, width)],
        outputs=[
            {
                "type": "classification",
                "layer_name": "predictions",
                "element_type": "float32",
                "shape": [-1, model.output_shape[-1]],
                "steps": [{"topk": None, "k": 5, "labels": IMAGENET_LABELS}],
            }
        ],
        model={
            **weights_of(builder),
            "builder": f"keras.applications.{name}",
            "arguments": {"weights": None},
            "assets": labels.imagenet(),
        },
        attributes={
            "parameters": model.count_params(),
            "training_dataset": "ImageNet-1K",
        },
        references=[text[start:].split(")")[0].split()[0]] if start >= 0 else [],
        dataset="photos",
    )


def input_of(part: str, channels: int, height: int, width: int) -> dict[str, Any]:
    """Return the input of an application of the module `part`.

    Pictures have `channels`, and `height` and `width` in pixels.
    """
    mean, deviation = normalization_of(part)
    places = 7 if part in _ROOTED else 4
    picture = Picture(channels, height, width, 0, mean, deviation, layout="NHWC", places=places)
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


def normalization_of(part: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation, for pixels from 0 to 1, of an application's preprocess_input.

    Of `_ROOTED` Keras normalizes itself: (x - mean) / √d, by a mean and a variance d that are
    weights, and multiplies by 1 / √d if and only if it's built with `weights="imagenet"`
    (tensorflow/tensorflow#49930). Built without, the same comes of x' = (x - mean (1 - √d)) / √d.
    """
    if part in _CAFFE:
        return tuple(value / 255 for value in (103.939, 116.779, 123.68)), (1 / 255,) * 3
    if part in _TORCH:
        return _MEAN, _DEVIATION
    if part in _ROOTED:
        roots = tuple(math.sqrt(value) for value in _DEVIATION)
        mean = tuple(value * (1 - root) for value, root in zip(_MEAN, roots, strict=True))
        return mean, tuple(root / 255 for root in roots)
    if part in _PLAIN:
        return (0.0,) * 3, (1 / 255,) * 3
    return (0.5,) * 3, (0.5,) * 3


def weights_of(builder: Any) -> dict[str, Any]:
    """Return the address and checksum of what a builder loads, {} where Keras has no checksum.

    Keras is made to raise _WeightsRequested instead of downloading a file: its tables are not
    enough, as half of the addresses and checksums are written in the builders.
    """
    files: Any = import_module("keras.src.utils.file_utils")

    def refuse(_: str, origin: str, file_hash: str = "", **__: Any) -> None:
        raise _WeightsRequested(origin, file_hash)

    get_file, files.get_file = files.get_file, refuse
    try:
        builder(weights="imagenet")
    except _WeightsRequested as requested:
        base, _, path = requested.origin.rpartition("/")
        kind = _ALGORITHMS.get(len(requested.file_hash))
        checksum = {"weights_checksum": f"{kind}:{requested.file_hash}"}
        return {"base_url": f"{base}/", "weights_path": path, **checksum} if kind else {}
    finally:
        files.get_file = get_file
    return {}
