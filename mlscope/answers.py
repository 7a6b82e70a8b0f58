"""What a model answered, in words: one line a feature, for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Feature = Mapping[str, Any]
MOST_CHARACTERS = 200
_FEW = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One feature: what it says, how sure it is, and where or what of."""

    answer: str
    probability: float | None = None
    #: a box, a size, a shape …
    detail: str = ""


def lines_of(features: Sequence[Feature]) -> list[Line]:
    """Return the lines of an answer, in its order; a map of classes has one a class."""
    return [line for feature in features for line in _lines(feature)]


def _lines(feature: Feature) -> list[Line]:
    output = f"{feature['output']}: " if feature.get("output") else ""
    if "classes" in feature and "size" in feature:
        return _of_map(feature, output)
    return [
        Line(_cut(output + _said(feature)), _number(feature.get("probability")), _where(feature))
    ]


def _said(feature: Feature) -> str:
    if "text" in feature:
        return str(feature["text"])
    if feature.get("label"):
        return str(feature["label"])
    if "index" in feature:
        return f"class {feature['index']}"
    if feature.get("type") == "raw":
        return _numbers(feature)
    if feature.get("type") == "image":
        return f"{feature.get('format', '')} image".strip()
    if "left_out" in feature:
        return "too large to be kept"
    return str(dict(feature))


def _where(feature: Feature) -> str:
    if "xmin" in feature:
        sides = (f"{_number(feature[side]):.4g}" for side in ("xmin", "ymin", "xmax", "ymax"))
        return f"box {' '.join(sides)}"
    if "mask" in feature:
        return f"mask in {_size(feature['mask'].get('size', ()))}"
    if "size" in feature:
        return _size(feature["size"])
    if "shape" in feature:
        return f"{feature.get('element_type', '')}{list(feature['shape'])}"
    return ""


def _of_map(feature: Feature, output: str) -> list[Line]:
    """Return the classes of a map with their shares of its pixels."""
    height, width = feature["size"]
    whole = max(height * width, 1)
    return [
        Line(
            _cut(output + (each.get("label") or f"class {each.get('index')}")),
            None,
            f"{each['pixels'] / whole:.1%} of {_size(feature['size'])}",
        )
        for each in feature["classes"]
    ]


def _numbers(feature: Feature) -> str:
    values = feature.get("values", ())
    shown = " ".join("nan" if value is None else f"{value:.4g}" for value in values[:_FEW])
    return shown + (" …" if len(values) > _FEW else "") or "too large to be kept"


def _size(size: Sequence[int]) -> str:
    return " x ".join(str(each) for each in reversed(size))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
