"""The features of a model's answer as text: one line for each, for people to read. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Feature = Mapping[str, Any]
MOST_CHARACTERS = 200
_SHOWN_VALUES = 4


@dataclass(frozen=True, slots=True)
class FeatureLine:
    """One feature: the answer, its probability (None: none is given), and a detail."""

    answer: str
    probability: float | None = None
    #: a box, a size, a shape; empty if there is none
    detail: str = ""


def feature_lines(features: Sequence[Feature]) -> list[FeatureLine]:
    """Return the lines of an answer's features, in order; a class map has a line for each class."""
    lines: list[FeatureLine] = []
    for feature in features:
        output = f"{feature['output']}: " if feature.get("output") else ""
        if "classes" in feature and "size" in feature:
            height, width = feature["size"]
            size, pixels = _size(feature["size"]), max(height * width, 1)
            lines += [
                FeatureLine(
                    _cut(output + (present.get("label") or f"class {present.get('index')}")),
                    None,
                    f"{present['pixels'] / pixels:.1%} of {size}",
                )
                for present in feature["classes"]
            ]
            continue
        answer = _cut(output + _answer_of(feature))
        probability = _number(feature.get("probability"))
        lines.append(FeatureLine(answer, probability, _detail_of(feature)))
    return lines


def _answer_of(feature: Feature) -> str:
    if "text" in feature:
        return str(feature["text"])
    if feature.get("label"):
        return str(feature["label"])
    if "index" in feature:
        return f"class {feature['index']}"
    if feature.get("type") == "raw":
        values = feature.get("values", ())
        shown = ["nan" if value is None else f"{value:.4g}" for value in values[:_SHOWN_VALUES]]
        ellipsis = " …" if len(values) > _SHOWN_VALUES else ""
        return " ".join(shown) + ellipsis or "too large to be kept"
    if feature.get("type") == "image":
        return f"{feature.get('format', '')} image".strip()
    if "left_out" in feature:
        return "too large to be kept"
    return str(dict(feature))


def _detail_of(feature: Feature) -> str:
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


def _size(size: Sequence[int]) -> str:
    return " x ".join(str(side) for side in reversed(size))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
