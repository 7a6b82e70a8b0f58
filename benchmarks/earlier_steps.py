"""Steps as they were before release 0.2, with an array between any two: a baseline and a reference.

Every step that was made cheaper since must answer as these do, in every bit.
"""

import io
import unicodedata
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from PIL import Image

from mlscope.image_geometry import covering, cut_before, inside, padded_before, share, within
from schemas.manifest import Step
from services.agent.steps.scores import float_type
from services.agent.steps.suppression import overlaps

Apply = Callable[[Any], Any]
Feature = dict[str, Any]


def earlier_step(step: Step, labels: Sequence[str] = ()) -> Apply:
    """Return the function of a `step`, with the lines of its label file.

    Raises KeyError for a step that has not changed, and does not check its parameters.
    """
    return _FACTORIES[step.operator](labels=labels, **dict(step.parameters))


def _decode(*, color_mode: str = "RGB", data_layout: str = "HWC", **_: Any) -> Apply:
    def apply(body: bytes) -> Any:
        with Image.open(io.BytesIO(body), formats=("JPEG", "PNG", "WEBP")) as picture:
            pixels = np.asarray(picture.convert("RGB" if color_mode == "BGR" else color_mode))
        if pixels.ndim == 2:
            pixels = pixels[:, :, np.newaxis]
        if color_mode == "BGR":
            pixels = np.ascontiguousarray(pixels[:, :, ::-1])
        return np.ascontiguousarray(pixels.transpose(2, 0, 1)) if "CHW" in data_layout else pixels

    return apply


def _resize(
    *,
    dimensions: Any = None,
    max_dimension: int = 0,
    method: str = "bilinear",
    keep_aspect_ratio: bool = False,
    fit: str = "cover",
    **_: Any,
) -> Apply:
    resampling = Image.Resampling[method.replace("area", "box").upper()]

    def apply(pixels: Any) -> Any:
        sides = pixels.shape[:2]
        size = within(sides, max_dimension) if dimensions is None else _size(dimensions)
        if dimensions is not None and keep_aspect_ratio:
            size = (inside if fit == "inside" else covering)(sides, size)
        if pixels.shape[2] in (3, 4):
            return np.asarray(Image.fromarray(pixels).resize(size[::-1], resampling))
        plane = Image.fromarray(np.ascontiguousarray(pixels[:, :, 0]))
        return np.asarray(plane.resize(size[::-1], resampling))[:, :, np.newaxis]

    return apply


def _crop(*, dimensions: Any = None, ratio: float = 1.0, method: str = "center", **_: Any) -> Apply:
    def apply(pixels: Any) -> Any:
        height, width = share(pixels.shape, ratio) if dimensions is None else _size(dimensions)
        margins = pixels.shape[0] - height, pixels.shape[1] - width
        y, x = (cut_before(margin, centred=method == "center") for margin in margins)
        return pixels[y : y + height, x : x + width]

    return apply


def _pad(
    *,
    dimensions: Any = None,
    multiple: int = 1,
    method: str = "center",
    value: float = 0.0,
    **_: Any,
) -> Apply:
    def apply(pixels: Any) -> Any:
        sides = pixels.shape[:2]
        padded = tuple(-(-side // multiple) * multiple for side in sides)
        padded = padded if dimensions is None else _size(dimensions)
        borders = [new - old for new, old in zip(padded, sides, strict=True)]
        before = [padded_before(border, centred=method == "center") for border in borders]
        widths = [(start, border - start) for start, border in zip(before, borders, strict=True)]
        return np.pad(pixels, (*widths, (0, 0)), constant_values=pixels.dtype.type(value))

    return apply


def _normalize(
    *, mean: Any = 0.0, scale: Any = 1.0, rescale_factor: float = 1.0, **_: Any
) -> Apply:
    means, scales = np.array(mean, np.float32), np.array(scale, np.float32)

    def apply(pixels: Any) -> Any:
        if rescale_factor == 1.0:
            return (pixels.astype(np.float32) - means) / scales
        return (pixels.astype(np.float32) * np.float32(rescale_factor) - means) / scales

    return apply


def _cast(*, element_type: str = "float32", data_layout: str = "HWC", **_: Any) -> Apply:
    def apply(tensor: Any) -> Any:
        moved = tensor.transpose(2, 0, 1) if data_layout.endswith("CHW") else tensor
        return np.ascontiguousarray(moved, dtype=element_type)

    return apply


def _layout(*, to: str = "CHW", **parameters: Any) -> Apply:
    source, target = parameters.get("from", "HWC").replace("N", ""), to.replace("N", "")
    order = [source.index(letter) for letter in target]
    return lambda tensor: np.ascontiguousarray(tensor.transpose(order))


def _topk(*, labels: Sequence[str], k: int = 5, **_: Any) -> Apply:
    def best(row: Any) -> list[Feature]:
        order = np.argsort(-row.astype(np.float64), kind="stable")[:k]
        return [
            {
                "type": "classification",
                "index": int(index),
                "label": labels[int(index)] if labels else "",
                "probability": float(row[index]),
            }
            for index in order
        ]

    return lambda rows: [best(row) for row in rows.reshape(len(rows), -1)]


def _segmentation(*, labels: Sequence[str], data_layout: str = "NCHW", **_: Any) -> Apply:
    axis = -1 if data_layout == "NHWC" else 1

    def apply(values: Any) -> list[list[Feature]]:
        if values.ndim == 4:
            values = values.take(0, axis) if values.shape[axis] == 1 else values.argmax(axis)
        return [[feature_of(sample.astype(np.int64))] for sample in values]

    def feature_of(pixels: Any) -> Feature:
        flat = pixels.ravel()
        starts = np.concatenate(([0], np.flatnonzero(np.diff(flat)) + 1))
        lengths = np.diff(np.concatenate((starts, [flat.size])))
        classes, counts = np.unique(flat, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        pairs = zip(classes[order].tolist(), counts[order].tolist(), strict=True)
        return {
            "type": "semanticsegment",
            "size": list(pixels.shape),
            "runs": np.stack([flat[starts], lengths], axis=1).tolist(),
            "classes": [
                {"index": index, "label": labels[index] if labels else "", "pixels": count}
                for index, count in pairs
            ],
        }

    return apply


def _softmax(**_: Any) -> Apply:
    def apply(scores: Any) -> Any:
        exact = scores.astype(np.float64)
        raised = np.exp(exact - exact.max(axis=-1, keepdims=True))
        probabilities = raised / raised.sum(axis=-1, keepdims=True)
        return probabilities.astype(float_type(scores.dtype), copy=False)

    return apply


def _sigmoid(**_: Any) -> Apply:
    def apply(scores: Any) -> Any:
        exact = scores.astype(np.float64)
        raised = np.exp(-np.abs(exact))
        probabilities = np.where(exact >= 0, 1.0, raised) / (1.0 + raised)
        return probabilities.astype(float_type(scores.dtype), copy=False)

    return apply


def earlier_suppressed(boxes: Any, scores: Any, classes: Any, threshold: float) -> Any:
    """Return the indices of the boxes that remain, best first; see `suppressed` of today."""
    waiting = np.argsort(-scores, kind="stable")
    remaining = []
    while len(waiting):
        best, worse = waiting[0], waiting[1:]
        remaining.append(int(best))
        overlap = overlaps(boxes[best : best + 1], boxes[worse])[0]
        waiting = worse[(overlap <= threshold) | (classes[worse] != classes[best])]
    return np.array(remaining, np.int64)


def earlier_tokens(text: str, *, lowercase: bool) -> list[str]:
    """Return a text's words; see `basic_tokens` of today."""
    tokens: list[str] = []
    for token in "".join(map(_spaced, unicodedata.normalize("NFC", text))).split():
        plain = token
        if lowercase:
            decomposed = unicodedata.normalize("NFD", token.lower())
            plain = "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
        for is_punctuation, characters in groupby(plain, key=_is_punctuation):
            joined = "".join(characters)
            tokens += joined if is_punctuation else (joined,)
    return tokens


def _spaced(character: str) -> str:
    category = unicodedata.category(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    if character in "\0\N{REPLACEMENT CHARACTER}" or category.startswith("C"):
        return ""
    blocks = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2CEAF), (0xF900, 0xFAFF))
    is_chinese = any(low <= ord(character) <= high for low, high in (*blocks, (0x2F800, 0x2FA1F)))
    return f" {character} " if is_chinese else character


def _is_punctuation(character: str) -> bool:
    code = ord(character)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(character).startswith("P")


def _size(dimensions: Any) -> tuple[int, int]:
    """Return (height, width) of one number, [height, width] or [channels, height, width]."""
    numbers = dimensions if isinstance(dimensions, list) else [dimensions, dimensions]
    return int(numbers[-2]), int(numbers[-1])


_FACTORIES: dict[str, Callable[..., Apply]] = {
    "decode": _decode,
    "resize": _resize,
    "crop": _crop,
    "pad": _pad,
    "normalize": _normalize,
    "cast": _cast,
    "layout": _layout,
    "softmax": _softmax,
    "sigmoid": _sigmoid,
    "topk": _topk,
    "segmentation": _segmentation,
}
