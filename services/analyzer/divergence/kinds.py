"""Answers as the model's last step made them, compared as their kind wants."""

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
from services.analyzer.divergence.sides import SUM_IS_ONE, Answers, listed_values, where
from services.analyzer.errors import NotAlike
from services.analyzer.predictions import Feature

_SHAPES = frozenset({"boundingbox", "instancesegment"})


def of_one_kind(output: str, first: Answers, second: Answers) -> Comparison:
    """Compare the answers of one output by their kind. Raises NotAlike."""
    kinds = [_kind(each) for each in (first, second)]
    kinds = [kind or kinds[1 - place] for place, kind in enumerate(kinds)]
    if kinds[0] != kinds[1]:
        raise NotAlike("answers", f"{where(output)}one answers {kinds[0]}, the other {kinds[1]}")
    if kinds[0] not in _SHAPES:
        # Only of shapes it is an answer that there are none.
        first, second = ({n: f for n, f in side.items() if f} for side in (first, second))
    try:
        match kinds[0]:
            case "classification":
                return _classes(first, second)
            case "raw":
                return _numbers(output, first, second)
            case "boundingbox" | "instancesegment":
                return compare_shapes(_shapes(first), _shapes(second))
            case "text":
                return compare_texts(_texts(first), _texts(second))
            case "semanticsegment":
                return compare_maps(_Maps(output, first), _Maps(output, second))
            case kind:
                raise NotAlike(
                    "answers", f"{where(output)}answers of kind {kind!r} have no measure"
                )
    except (AccuracyError, KeyError, TypeError, ValueError) as error:
        words = (
            str(error) if isinstance(error, AccuracyError) else f"{type(error).__name__} {error}"
        )
        raise NotAlike("answers", f"{where(output)}{words}") from error


def _kind(answers: Answers) -> str:
    kinds = {
        str(feature.get("type") or "classification") for f in answers.values() for feature in f
    }
    return " and ".join(sorted(kinds))


def _classes(first: Answers, second: Answers) -> Comparison:
    """Compare lists of classes: whole distributions where they are, else what lists tell."""
    ones, others = ({n: listed_values(f) for n, f in each.items()} for each in (first, second))
    both = ones.keys() & others.keys()
    if not all(_are_probabilities(side[name]) for side in (ones, others) for name in both):
        if all(ones[name].keys() == others[name].keys() for name in both):
            return compare_outputs(*_aligned(ones, others))
        return compare_best(_best(ones), _best(others), "the values are no probabilities")
    if all(_is_whole(ones[name], others[name]) for name in both):
        return compare_probabilities(*_aligned(ones, others))
    return compare_top_k(ones, others)


def _are_probabilities(listed: Mapping[int, float]) -> bool:
    values = listed.values()
    return min(values) >= 0.0 and sum(values) <= 1.0 + SUM_IS_ONE


def _is_whole(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    is_full = all(abs(sum(each.values()) - 1.0) <= SUM_IS_ONE for each in (one, other))
    return one.keys() == other.keys() and is_full and sorted(one) == list(range(len(one)))


def _aligned(
    ones: Mapping[str, Mapping[int, float]], others: Mapping[str, Mapping[int, float]]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    first, second = (
        {name: [listed[index] for index in sorted(listed)] for name, listed in side.items()}
        for side in (ones, others)
    )
    return first, second


def _best(side: Mapping[str, Mapping[int, float]]) -> dict[str, int]:
    return {name: min(each, key=lambda index: (-each[index], index)) for name, each in side.items()}


def _numbers(output: str, first: Answers, second: Answers) -> Comparison:
    """Compare tensors: those of one shape, as far as their values were kept."""
    ones, others = ({n: f[0] for n, f in each.items()} for each in (first, second))
    cut = ""
    for name in ones.keys() & others.keys():
        shapes = ones[name]["shape"], others[name]["shape"]
        if shapes[0] != shapes[1]:
            raise NotAlike("shape", f"{where(output)}{shapes[0]} against {shapes[1]}")
        size = int(np.prod(shapes[0], dtype=np.int64))
        kept = min(len(ones[name].get("values", ())), len(others[name].get("values", ())))
        if not kept:
            raise NotAlike("answers", f"{where(output)}the values were too large to be kept")
        cut = f"of each answer the first {kept} of {size} values were kept" if kept < size else cut
    found = compare_outputs(_values(ones, others), _values(others, ones))
    if not cut:
        return found
    # The largest of the first values is not the largest.
    outcomes = {n: each.warning(cut) for n, each in found.outcomes.items() if n != AGREEMENT}
    by_sample = {
        sample: {n: value for n, value in values.items() if n != AGREEMENT}
        for sample, values in found.by_sample.items()
    }
    return Comparison(outcomes, by_sample)


def _values(side: Mapping[str, Feature], other: Mapping[str, Feature]) -> dict[str, Any]:
    """Return the values of each sample: as many as both kept."""
    found = {}
    for name, feature in side.items():
        most = len(other[name]["values"]) if name in other else None
        found[name] = [np.nan if value is None else value for value in feature["values"]][:most]
    return found


def _shapes(side: Answers) -> dict[str, list[tuple[str, float, tuple[float, ...]]]]:
    """Return each sample's shapes: class, probability and box."""
    return {
        name: [
            (str(each.get("label") or each["index"]), float(each["probability"]), _corners(each))
            for each in features
        ]
        for name, features in side.items()
    }


def _corners(feature: Feature) -> tuple[float, ...]:
    """Return a shape's box; of a mask the box around it."""
    if "mask" not in feature:
        return tuple(float(feature[side]) for side in ("xmin", "ymin", "xmax", "ymax"))
    height, width = feature["mask"]["size"]
    pixels = pixels_of(Mask(height, width, tuple(feature["mask"]["counts"])))
    rows, columns = np.flatnonzero(pixels.any(axis=1)), np.flatnonzero(pixels.any(axis=0))
    if not rows.size:
        return (0.0, 0.0, 0.0, 0.0)
    return (
        float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)
    )  # fmt: skip


def _texts(side: Answers) -> dict[str, str]:
    return {name: " ".join(str(each["text"]) for each in f) for name, f in side.items()}


class _Maps(Mapping[str, Any]):
    """Each sample's map of classes [height, width], decoded when asked for: one is large enough."""

    def __init__(self, output: str, side: Answers) -> None:
        self._side = side
        if any("runs" not in feature for feature, *_ in side.values()):
            raise NotAlike("answers", f"{where(output)}the maps were too large to be kept")

    def __getitem__(self, name: str) -> Any:
        feature = self._side[name][0]
        return map_of_runs(feature["runs"], feature["size"])

    def __iter__(self) -> Iterator[str]:
        return iter(self._side)

    def __len__(self) -> int:
        return len(self._side)
