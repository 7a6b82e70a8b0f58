"""torchvision's models: every builder it lists, with its default weights' metadata."""

import re
from collections.abc import Iterator
from typing import Any

from tools.catalog.entries import Entry, LabelFiles, Picture

_ADDRESS = re.compile(r"(?P<base>.*/)(?P<file>[^/]+-(?P<hash>[0-9a-f]{8,64})\.[a-z]+)")
_TASKS = {
    "detection": "object detection",
    "segmentation": "semantic segmentation",
    "video": "video classification",
    "optical_flow": "optical flow",
    "quantization": "image classification",
}
_LEARNT = {
    "IMAGENET1K": "ImageNet-1K",
    "KINETICS400": "Kinetics-400",
    "COCO": "COCO",
}
"""What weights are learnt from, by the first part of their own name."""

_PRETRAINED = "SWAG"
"""In the names of weights that were learnt from other pictures before."""

_VERSION, _CORRECTED = "1.0.0", "1.1.0"
"""What manifests say whose data set is both learnt from and evaluated on; and the others."""

_LICENSE = "BSD-3-Clause"
_FRAMEWORK_VERSION = ">=2.0"
_MODELS = "torchvision.models"
_VIT_SIZE = 224
"""The picture size that vision transformers are built for when nothing else is said."""


def declare_operators(torch: Any) -> Any:
    """Let a torchvision whose own operators don't fit this torch be imported; keep what returns.

    Their kernels are missing then: detectors can be described and built, not run.
    """
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def entries(torchvision: Any, labels: LabelFiles) -> Iterator[Entry]:
    """Yield every model of a torchvision that has weights, by name."""
    for name in torchvision.models.list_models():
        builder = torchvision.models.get_model_builder(name)
        weights = torchvision.models.get_model_weights(name)
        part = builder.__module__.removeprefix(f"{_MODELS}.").partition(".")[0]
        yield _entry(name, builder.__name__, part, weights.DEFAULT, labels)


def package(torchvision: Any) -> str:
    """Return what the entries come from."""
    return f"torchvision {torchvision.__version__.partition('+')[0]}"


def _entry(name: str, function: str, part: str, weights: Any, labels: LabelFiles) -> Entry:
    task = _TASKS.get(part, "image classification")
    if name.startswith("maskrcnn"):
        task = "instance segmentation"
    elif name.startswith("keypointrcnn"):
        task = "keypoint detection"
    categories = weights.meta.get("categories")
    files = labels.of(categories) if categories else {}
    inputs, outputs, options = ports_of(part, task, weights, next(iter(files), ""))
    folder = f".{part}" if part in _TASKS else ""
    match = _ADDRESS.fullmatch(weights.url)
    address = {"base_url": match["base"], "weights_path": match["file"]} if match else {}
    checksum = {"weights_checksum": f"sha256-prefix:{match['hash']}"} if match else {}
    return Entry(
        name=f"torchvision-{name.replace('_', '-')}",
        task=task,
        description=f"{name} of torchvision, {training_text(weights)}.",
        framework="pytorch",
        framework_version=_FRAMEWORK_VERSION,
        inputs=inputs,
        outputs=outputs,
        options=options,
        version=_VERSION if _trained(weights) in _evaluated(weights) else _CORRECTED,
        license=weights.meta.get("license") or _LICENSE,
        references=[weights.meta["recipe"]] if weights.meta.get("recipe") else [],
        model={
            **address,
            **checksum,
            "builder": f"{_MODELS}{folder}.{function}",
            "arguments": arguments_of(name, part, weights),
            "assets": files,
        },
        attributes=attributes_of(weights),
        dataset="photos" if task == "image classification" else "",
    )


def arguments_of(name: str, part: str, weights: Any) -> dict[str, Any]:
    """Return what a builder is called with so that the published weights fit what it builds.

    `name` is the model's, `part` the module it is in, `weights` are its default ones.
    """
    arguments: dict[str, Any] = {"weights": None}
    if part == "quantization":
        arguments |= {"quantize": True}
    if part in ("detection", "segmentation"):
        arguments |= {"weights_backbone": None}
    if name.startswith(("fcn", "deeplab")):
        arguments |= {"aux_loss": True}
    if name.removeprefix("quantized_") in ("googlenet", "inception_v3"):
        arguments |= {"transform_input": True, "init_weights": False}
    if name.startswith("vit_") and (size := weights.transforms().crop_size[0]) != _VIT_SIZE:
        arguments |= {"image_size": size}
    return arguments


def ports_of(
    part: str, task: str, weights: Any, file: str
) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Return inputs, outputs and options of a model with a `task`.

    `part` is the module it is in, `weights` are its default ones, and `file` is the address of the
    categories' names.
    """
    classes = len(weights.meta.get("categories") or ())
    if part == "video":
        frames = max(int(weights.meta.get("min_temporal_size", 16)), 16)
        height, width = weights.transforms().crop_size
        shape = [-1, 3, frames, int(height), int(width)]
        return [_port("raw", "x", shape)], [_scores(classes, file)], {}
    if part == "optical_flow":
        pair = [_port("raw", name, [-1, 3, 368, 496]) for name in ("image1", "image2")]
        return pair, [_port("raw", "flow", [])], {}
    if part == "detection":
        picture = Picture(3, 480, 640, 0, (0, 0, 0), (1, 1, 1))
        return [_picture(picture)], _detected(task, file), {"call": "list"}
    if part == "segmentation":
        picture = _of_transforms(weights.transforms(), crop=520)
        output = _port("semantic_segmentation", "out", [-1, classes, 520, 520])
        return (
            [_picture(picture)],
            [{**output, "steps": [{"segmentation": None, "labels": file}]}],
            {},
        )
    picture = _of_transforms(weights.transforms(), crop=0)
    return [_picture(picture)], [_scores(classes, file)], {}


def _scores(classes: int, file: str) -> dict[str, Any]:
    steps = [{"softmax": None}, {"topk": None, "k": 5, "labels": file}]
    return {**_port("classification", "scores", [-1, classes]), "steps": steps}


def _detected(task: str, file: str) -> list[dict[str, Any]]:
    """Return a detector's outputs: of each sample by itself, called by the first one's names."""
    options = {"scores": "0.scores", "classes": "0.labels", "score": 0.05, "labels": file}
    boxes = {**_port("detection_boxes", "0.boxes", []), "steps": [{"boxes": None, **options}]}
    labels = {**_port("detection_labels", "0.labels", []), "element_type": "int64"}
    named = [labels, _port("detection_scores", "0.scores", [])]
    if task == "instance segmentation":
        masks = _port("instance_segmentation", "0.masks", [])
        return [boxes, *named, {**masks, "steps": [{"masks": None, **options}]}]
    if task == "keypoint detection":
        return [boxes, *named, _port("raw", "0.keypoints", [])]
    return [boxes, *named]


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


def _trained(weights: Any) -> str:
    """Return the data set that weights are learnt from, "" where their name does not say."""
    if _PRETRAINED in weights.name:
        return ""
    return _LEARNT.get(weights.name.partition("_")[0], "")


def _evaluated(weights: Any) -> list[str]:
    """Return the data sets that weights have figures of."""
    return list(weights.meta.get("_metrics") or ())


def training_text(weights: Any) -> str:
    """Return what weights are learnt from and, where it's not the same, evaluated on."""
    trained, evaluated = _trained(weights), _evaluated(weights)
    parts = [f"trained on {trained}"] if trained else []
    if other_datasets := [dataset for dataset in evaluated if dataset != trained]:
        parts.append(f"evaluated on {', '.join(other_datasets)}")
    return ", ".join(parts) or "with its default weights"


def attributes_of(weights: Any) -> dict[str, Any]:
    """Return the sizes of weights, what they are learnt from, and their figures."""
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
        "training_dataset": _trained(weights),
        **metrics,
    }
