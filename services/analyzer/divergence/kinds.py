"""Answers as the model's last step returned them, compared by their kind."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mlscope.accuracy import (
    AccuracyError,
    Comparison,
    Mask,
    compare_outputs,
    compare_probabilities,
    compare_top_k,
    map_of_runs,
)
from mlscope.accuracy.comparison import AGREEMENT, compare_best
from mlscope.accuracy.likeness import compare_maps, compare_shapes, compare_texts
from mlscope.accuracy.shapes import pixels_of
from services.analyzer.divergence.sides import SUM_IS_ONE, Answers, listed_values, output_prefix
from services.analyzer.errors import NotAlike
from services.analyzer.frames.predictions import Feature

_SHAPES = frozenset({"boundingbox", "instancesegment"})


def compare_answers(output: str, first: Answers, second: Answers) -> Comparison:
    """Compare the `first` and `second` answers of an `output` by their kind. Raises NotAlike."""
    kind, other_kind = _kind_of(first), _kind_of(second)
    # A side without any shape has no kind of its own.
    kind, other_kind = kind or other_kind, other_kind or kind
    prefix = output_prefix(output)
    if kind != other_kind:
        raise NotAlike("answers", f"{prefix}one gives {kind}, the other {other_kind}")
    if kind not in _SHAPES:
        # An empty list is an answer only for shapes.
        first, second = ({n: f for n, f in side.items() if f} for side in (first, second))
    try:
        match kind:
            case "classification":
                return compare_classes(first, second)
            case "raw":
                return compare_tensors(output, first, second)
            case "boundingbox" | "instancesegment":
                return compare_shapes(_shapes(first), _shapes(second))
            case "text":
                return compare_texts(_texts(first), _texts(second))
            case "semanticsegment":
                return compare_maps(_ClassMaps(output, first), _ClassMaps(output, second))
    except AccuracyError as error:
        raise NotAlike("answers", f"{prefix}{error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise NotAlike("answers", f"{prefix}{type(error).__name__} {error}") from error
    raise NotAlike("answers", f"{prefix}there is no measure for answers of kind {kind!r}")


def _kind_of(answers: Answers) -> str:
    """Return the type of the answers' features, '' where they have none."""
    features = (feature for features in answers.values() for feature in features)
    return " and ".join(sorted({str(f.get("type") or "classification") for f in features}))


def compare_classes(first: Answers, second: Answers) -> Comparison:
    """Compare the lists of classes of both sides, the `first` and the `second`.

    Complete distributions are compared where both sides list them, else the listed classes.
    """
    lists = [{n: listed_values(f) for n, f in side.items()} for side in (first, second)]
    both = lists[0].keys() & lists[1].keys()
    has_same_classes = all(lists[0][name].keys() == lists[1][name].keys() for name in both)
    values = [side[name] for side in lists for name in both]
    if not all(
        min(listed.values()) >= 0.0 and sum(listed.values()) <= 1.0 + SUM_IS_ONE
        for listed in values
    ):
        if has_same_classes:
            return compare_outputs(*_aligned(*lists))
        best, other_best = (
            {name: min(v, key=lambda index: (-v[index], index)) for name, v in side.items()}
            for side in lists
        )
        return compare_best(best, other_best, "the values are not probabilities")
    if has_same_classes and all(
        abs(sum(listed.values()) - 1.0) <= SUM_IS_ONE and sorted(listed) == list(range(len(listed)))
        for listed in values
    ):
        return compare_probabilities(*_aligned(*lists))
    return compare_top_k(*lists)


def _aligned(
    first: Mapping[str, Mapping[int, float]], second: Mapping[str, Mapping[int, float]]
) -> list[dict[str, list[float]]]:
    """Return each sample's values in the order of the class numbers."""
    return [
        {name: [listed[index] for index in sorted(listed)] for name, listed in side.items()}
        for side in (first, second)
    ]


def compare_tensors(output: str, first: Answers, second: Answers) -> Comparison:
    """Compare the `first` and `second` tensors of an `output` by the values that both stored.

    Raises NotAlike for other shapes, or where the values were too large to be stored.
    """
    sides = [{name: features[0] for name, features in side.items()} for side in (first, second)]
    counts: dict[str, int] = {}
    caveat = ""
    for name in sides[0].keys() & sides[1].keys():
        counts[name], size = stored_count(output, sides[0][name], sides[1][name])
        if counts[name] < size:
            caveat = f"only the first {counts[name]} of {size} values of each answer were stored"
    # A value that JSON can't hold is null there, and becomes NaN.
    vectors = [
        {n: np.array(f["values"], np.float64)[: counts.get(n)] for n, f in side.items()}
        for side in sides
    ]
    compared = compare_outputs(*vectors)
    return without_agreement(compared, caveat) if caveat else compared


def stored_count(output: str, first: Feature, second: Feature) -> tuple[int, int]:
    """Return how many values both stored of a sample's `first` and `second` tensor, and the size.

    Raises NotAlike, which names the `output`.
    """
    shape, other_shape = first["shape"], second["shape"]
    if shape != other_shape:
        raise NotAlike("shape", f"{output_prefix(output)}{shape} against {other_shape}")
    count = min(len(feature.get("values", ())) for feature in (first, second))
    if not count:
        raise NotAlike("answers", f"{output_prefix(output)}the values were too large to be stored")
    return count, int(np.prod(shape, dtype=np.int64))


def without_agreement(compared: Comparison, caveat: str) -> Comparison:
    """Return a comparison of first values with a `caveat`, without the agreement of the largest.

    The largest of the first values is not the largest of all.
    """
    outcomes = {
        name: outcome.warning(caveat)
        for name, outcome in compared.outcomes.items()
        if name != AGREEMENT
    }
    by_sample = {
        sample: {name: value for name, value in values.items() if name != AGREEMENT}
        for sample, values in compared.by_sample.items()
    }
    return Comparison(outcomes, by_sample)


def _texts(side: Answers) -> dict[str, str]:
    return {
        name: " ".join(str(feature["text"]) for feature in features)
        for name, features in side.items()
    }


def _shapes(side: Answers) -> dict[str, list[tuple[str, float, tuple[float, ...]]]]:
    """Return each sample's shapes: class, probability and box."""
    return {
        name: [
            (str(shape.get("label") or shape["index"]), float(shape["probability"]), box_of(shape))
            for shape in features
        ]
        for name, features in side.items()
    }


def box_of(feature: Feature) -> tuple[float, ...]:
    """Return a shape's box (left, top, right, bottom); for a mask, the box around it."""
    if "mask" not in feature:
        return tuple(float(feature[side]) for side in ("xmin", "ymin", "xmax", "ymax"))
    height, width = feature["mask"]["size"]
    pixels = pixels_of(Mask(height, width, tuple(feature["mask"]["counts"])))
    rows, columns = np.flatnonzero(pixels.any(axis=1)), np.flatnonzero(pixels.any(axis=0))
    if not rows.size:
        return (0.0, 0.0, 0.0, 0.0)
    left_top = float(columns[0]), float(rows[0])
    return (*left_top, float(columns[-1] + 1), float(rows[-1] + 1))


class _ClassMaps(Mapping[str, Any]):
    """Each sample's map of classes, shape [height, width], decoded on access since it is large."""

    def __init__(self, output: str, side: Answers) -> None:
        self._side = side
        if any("runs" not in feature for feature, *_ in side.values()):
            raise NotAlike(
                "answers", f"{output_prefix(output)}the maps were too large to be stored"
            )

    def __getitem__(self, name: str) -> Any:
        feature = self._side[name][0]
        return map_of_runs(feature["runs"], feature["size"])

    def __iter__(self) -> Iterator[str]:
        return iter(self._side)

    def __len__(self) -> int:
        return len(self._side)
