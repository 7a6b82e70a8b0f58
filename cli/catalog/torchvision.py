"""torchvision's models: every builder it lists, with its default weights' metadata."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from cli.catalog.entries import Entry, Picture

_ADDRESS = re.compile(r"(?P<base>.*/)(?P<file>[^/]+-(?P<hash>[0-9a-f]{8,64})\.[a-z]+)")
_TASKS = {
    "detection": "object detection",
    "segmentation": "semantic segmentation",
    "video": "video classification",
    "optical_flow": "optical flow",
    "quantization": "image classification",
}
_FRAMEWORK_VERSION = ">=2.0"
_MODELS = "torchvision.models"


def entries(torchvision: Any) -> Iterator[Entry]:
    """Yield every model of a torchvision that has weights, by name."""
    for name in torchvision.models.list_models():
        builder = torchvision.models.get_model_builder(name)
        weights = torchvision.models.get_model_weights(name)
        part = builder.__module__.removeprefix(f"{_MODELS}.").partition(".")[0]
        yield _entry(name, builder.__name__, part, weights.DEFAULT)


def package(torchvision: Any) -> str:
    """Return what the entries come from."""
    return f"torchvision {torchvision.__version__.partition('+')[0]}"


def _entry(name: str, function: str, part: str, weights: Any) -> Entry:
    task = _task(name, part)
    inputs, outputs, options = _ports(part, weights)
    folder = f".{part}" if part in _TASKS else ""
    found = _ADDRESS.fullmatch(weights.url)
    address = {"base_url": found["base"], "weights_path": found["file"]} if found else {}
    checksum = {"weights_checksum": f"sha256-prefix:{found['hash']}"} if found else {}
    return Entry(
        name=f"torchvision-{name.replace('_', '-')}",
        task=task,
        description=f"{name} of torchvision, {_trained(weights.meta)}.",
        framework="pytorch",
        framework_version=_FRAMEWORK_VERSION,
        inputs=inputs,
        outputs=outputs,
        options=options,
        license="BSD-3-Clause",
        references=[weights.meta["recipe"]] if weights.meta.get("recipe") else [],
        model={
            **address,
            **checksum,
            "builder": f"{_MODELS}{folder}.{function}",
            "arguments": _arguments(part),
        },
        attributes=_attributes(weights),
        dataset="photos" if task == "image classification" else "",
    )


def _task(name: str, part: str) -> str:
    if name.startswith("maskrcnn"):
        return "instance segmentation"
    if name.startswith("keypointrcnn"):
        return "keypoint detection"
    return _TASKS.get(part, "image classification")


def _arguments(part: str) -> dict[str, Any]:
    if part == "quantization":
        return {"weights": None, "quantize": True}
    if part in ("detection", "segmentation"):
        return {"weights": None, "weights_backbone": None}
    return {"weights": None}


def _ports(part: str, weights: Any) -> tuple[list[Any], list[Any], dict[str, Any]]:
    classes = len(weights.meta.get("categories") or ())
    if part == "video":
        frames = max(int(weights.meta.get("min_temporal_size", 16)), 16)
        height, width = weights.transforms().crop_size
        shape = [-1, 3, frames, int(height), int(width)]
        return [_port("raw", "x", shape)], [_port("classification", "scores", [-1, classes])], {}
    if part == "optical_flow":
        pair = [_port("raw", name, [-1, 3, 368, 496]) for name in ("image1", "image2")]
        return pair, [_port("raw", "flow", [])], {}
    if part == "detection":
        picture = Picture(3, 480, 640, 0, (0, 0, 0), (1, 1, 1))
        outputs = [_port(f"detection_{each}", each, []) for each in ("boxes", "labels", "scores")]
        return [_picture(picture)], outputs, {"call": "list"}
    if part == "segmentation":
        picture = _of_transforms(weights.transforms(), crop=520)
        return (
            [_picture(picture)],
            [_port("semantic_segmentation", "out", [-1, classes, 520, 520])],
            {},
        )
    picture = _of_transforms(weights.transforms(), crop=0)
    output = _port("classification", "scores", [-1, classes])
    output["steps"] = [{"softmax": None}, {"topk": None, "k": 5}]
    return [_picture(picture)], [output], {}


def _of_transforms(transforms: Any, crop: int) -> Picture:
    size = crop or transforms.crop_size[0]
    return Picture(
        channels=3,
        height=size,
        width=size,
        resize=0 if crop else transforms.resize_size[0],
        mean=transforms.mean,
        deviation=transforms.std,
        method=transforms.interpolation.value,
    )


def _picture(picture: Picture) -> dict[str, Any]:
    return {**_port("image", "x", picture.shape()), "steps": picture.steps()}


def _port(kind: str, name: str, shape: list[int]) -> dict[str, Any]:
    port = {"type": kind, "layer_name": name, "element_type": "float32"}
    return {**port, "shape": shape} if shape else port


def _trained(meta: Mapping[str, Any]) -> str:
    metrics = meta.get("_metrics") or {}
    return f"trained on {next(iter(metrics))}" if metrics else "with its default weights"


def _attributes(weights: Any) -> dict[str, Any]:
    meta = weights.meta
    metrics = {
        f"{metric} on {dataset}": value
        for dataset, values in (meta.get("_metrics") or {}).items()
        for metric, value in values.items()
    }
    return {
        "weights": str(weights),
        "parameters": meta.get("num_params"),
        "gflops": meta.get("_ops"),
        "weights_megabytes": meta.get("_file_size"),
        "training_dataset": next((each for each in meta.get("_metrics") or ()), None),
        **metrics,
    }
