"""How far two evaluations' answers to the same samples are apart. Pure.

Answers are paired by sample, output by output. What is compared depends on their kind: classes as
probabilities, numbers element by element, shapes by overlap, texts by edits, maps by pixel. Things
that are not alike are refused by name, never forced.
"""

from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlscope.accuracy import (
    AccuracyError,
    Comparison,
    Mask,
    Outcome,
    compare_outputs,
    compare_probabilities,
    compare_top_k,
    map_of_runs,
)
from mlscope.accuracy.comparison import AGREEMENT, compare_best
from mlscope.accuracy.likeness import compare_maps, compare_shapes, compare_texts
from mlscope.accuracy.shapes import pixels_of
from schemas.analysis import Column, Table
from services.analyzer.errors import NotAlike
from services.analyzer.predictions import Feature, Prediction
from services.analyzer.tables.table import estimate, real, text, whole

Answers = Mapping[str, list[Feature]]
"""The features of one output, by sample."""

SUM_IS_ONE = 1e-3
"""How far from 1 the probabilities of a complete list may add up."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of two evaluations: its answers by sample, of one run."""

    evaluation: str
    run: str
    predictions: Mapping[int, Prediction]

    @property
    def name(self) -> str:
        """How it is called in a sentence."""
        return f"{self.evaluation}/{self.run}"


def compared(first: Side, second: Side) -> tuple[Table, Table]:
    """Return the measures over all samples, and sample by sample. Raises NotAlike."""
    for side in (first, second):
        if not side.predictions:
            raise NotAlike("predictions", f"{side.name} kept no answer")
    if not first.predictions.keys() & second.predictions.keys():
        raise NotAlike("samples", f"{first.name} and {second.name} have no sample in common")
    ones, others = _by_output(first), _by_output(second)
    if ones.keys() != others.keys():
        shown = " and ".join(", ".join(sorted(each)) or "one" for each in (ones, others))
        raise NotAlike("outputs", f"the outputs have other names: {shown}")
    found = {}
    for name in ones:
        found[name] = _whole(name, first, second) or _compared(name, ones[name], others[name])
    return _overall(first, second, found), _each_sample(first, found)


def _whole(output: str, first: Side, second: Side) -> Comparison | None:
    """Compare the numbers that classes were chosen from; None where one side lacks some."""
    both = first.predictions.keys() & second.predictions.keys()
    sides = [_vectors(output, side, both) for side in (first, second)]
    ones, others = sides
    if min(len(ones), len(others)) < len(both):
        return None
    if any(ones[name].shape != others[name].shape for name in ones):
        return None
    try:
        raw = compare_outputs(ones, others)
        probabilities = [
            {name: _distribution(v, side.predictions[int(name)]) for name, v in vectors.items()}
            for side, vectors in zip((first, second), sides, strict=True)
        ]
        if any(each is None for side in probabilities for each in side.values()):
            return raw
        told = compare_probabilities(*probabilities)
    except AccuracyError as error:
        raise NotAlike("answers", f"{_where(output)}{error}") from error
    return _joined(told, raw)


def _vectors(output: str, side: Side, samples: Collection[int]) -> dict[str, Any]:
    """Return the numbers of each sample that has some."""
    found = {}
    for sample in sorted(samples):
        text_ = side.predictions[sample].raw.get(output)
        if text_:
            found[str(sample)] = np.frombuffer(b64decode(text_), "<f4").astype(np.float64)
    return found


def _distribution(values: Any, prediction: Prediction) -> Any:
    """Return probabilities of all classes, given those that were listed; None where that fails.

    They are the numbers themselves, or their softmax: whichever has the listed ones.
    """
    listed = _listed(prediction.features)
    raised = np.exp(values - values.max())
    for found in (values, raised / raised.sum()):
        is_one = found.min() >= 0.0 and abs(found.sum() - 1.0) <= SUM_IS_ONE
        if is_one and all(
            place < found.size and abs(found[place] - listed[place]) <= SUM_IS_ONE
            for place in listed
        ):
            return found
    return None


_OF_NUMBERS = "before the steps"


def _joined(told: Comparison, raw: Comparison) -> Comparison:
    """Put what is said of probabilities and of the numbers before them together."""
    outcomes = dict(told.outcomes)
    names = {name: f"{name} {_OF_NUMBERS}" for name in raw.outcomes if name != AGREEMENT}
    for name, longer in names.items():
        outcomes[longer] = replace(raw.outcomes[name], name=longer)
    by_sample = {
        sample: told.by_sample[sample] | {names[n]: v for n, v in values.items() if n in names}
        for sample, values in raw.by_sample.items()
    }
    return Comparison(outcomes, by_sample)


def _by_output(side: Side) -> dict[str, dict[str, list[Feature]]]:
    """Return the features of each output by sample; of a single output its name is ''."""
    every = [feature for each in side.predictions.values() for feature in each.features]
    names = dict.fromkeys(str(feature.get("output", "")) for feature in every)
    # A detector that finds nothing says nothing of its output: its list is empty, not absent.
    found: dict[str, dict[str, list[Feature]]] = {
        name: {str(sample): [] for sample in side.predictions} for name in names or ("",)
    }
    for sample, prediction in side.predictions.items():
        for feature in prediction.features:
            found[str(feature.get("output", ""))][str(sample)].append(feature)
    return found


def _compared(output: str, first: Answers, second: Answers) -> Comparison:
    kinds = [_kind(each) for each in (first, second)]
    kinds = [kind or kinds[1 - place] for place, kind in enumerate(kinds)]
    if kinds[0] != kinds[1]:
        raise NotAlike("answers", f"{_where(output)}one answers {kinds[0]}, the other {kinds[1]}")
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
                    "answers", f"{_where(output)}answers of kind {kind!r} have no measure"
                )
    except (AccuracyError, KeyError, TypeError, ValueError) as error:
        words = (
            str(error) if isinstance(error, AccuracyError) else f"{type(error).__name__} {error}"
        )
        raise NotAlike("answers", f"{_where(output)}{words}") from error


_SHAPES = frozenset({"boundingbox", "instancesegment"})


def _where(output: str) -> str:
    return f"output {output}: " if output else ""


def _kind(answers: Answers) -> str:
    kinds = {
        str(feature.get("type") or "classification") for f in answers.values() for feature in f
    }
    return " and ".join(sorted(kinds))


def _classes(first: Answers, second: Answers) -> Comparison:
    """Compare lists of classes: whole distributions where they are, else what lists tell."""
    ones, others = ({n: _listed(f) for n, f in each.items()} for each in (first, second))
    both = ones.keys() & others.keys()
    if not all(_are_probabilities(side[name]) for side in (ones, others) for name in both):
        if all(ones[name].keys() == others[name].keys() for name in both):
            return compare_outputs(*_aligned(ones, others))
        return compare_best(_best(ones), _best(others), "the values are no probabilities")
    if all(_is_whole(ones[name], others[name]) for name in both):
        return compare_probabilities(*_aligned(ones, others))
    return compare_top_k(ones, others)


def _listed(features: Sequence[Feature]) -> dict[int, float]:
    """Return class to value; where a class has only a name, its place by name is none of ours."""
    return {int(each["index"]): float(each["probability"]) for each in features}


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
            raise NotAlike("shape", f"{_where(output)}{shapes[0]} against {shapes[1]}")
        size = int(np.prod(shapes[0], dtype=np.int64))
        kept = min(len(ones[name].get("values", ())), len(others[name].get("values", ())))
        if not kept:
            raise NotAlike("answers", f"{_where(output)}the values were too large to be kept")
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
            raise NotAlike("answers", f"{_where(output)}the maps were too large to be kept")

    def __getitem__(self, name: str) -> Any:
        feature = self._side[name][0]
        return map_of_runs(feature["runs"], feature["size"])

    def __iter__(self) -> Iterator[str]:
        return iter(self._side)

    def __len__(self) -> int:
        return len(self._side)


_OVERALL = (
    text("output", "The model's output; '' is the only one."),
    text("measure", "What is compared."),
    *estimate("value", "Over all samples, as `method` says.", "1"),
    whole("samples", "Samples it is computed of."),
    whole("excluded", "Samples left out: of one evaluation only, undefined or infinite."),
    text("method", "Unit and convention."),
    text("note", "What must be known before the number is used."),
)


def _overall(first: Side, second: Side, found: Mapping[str, Comparison]) -> Table:
    outcomes = [(output, each) for output, c in found.items() for each in c.outcomes.values()]
    rows = [_row(output, outcome) for output, outcome in outcomes]
    samples = len(first.predictions.keys() & second.predictions.keys())
    same = [outcome for _, outcome in outcomes if outcome.name == AGREEMENT]
    said = ""
    if same and same[0].value is not None:
        said = f" First answers agree for {round(same[0].value * same[0].n)} of {same[0].n}."
    return Table(
        name="divergence",
        title=f"How far {first.name} and {second.name} are apart",
        columns=_OVERALL,
        rows=tuple(rows),
        verdict=f"{samples} samples are in both.{said}",
    )


def _row(output: str, outcome: Outcome) -> tuple[Any, ...]:
    interval = outcome.interval
    return (
        output,
        outcome.name,
        outcome.value,
        interval.low if interval else None,
        interval.high if interval else None,
        outcome.n,
        outcome.excluded,
        outcome.method,
        "; ".join(outcome.caveats),
    )


def _each_sample(first: Side, found: Mapping[str, Comparison]) -> Table:
    """Return a row a sample and output; columns are the measures that any of them has."""
    measures = dict.fromkeys(
        name for c in found.values() for values in c.by_sample.values() for name in values
    )
    columns: tuple[Column, ...] = (
        text("output", "The model's output; '' is the only one."),
        whole("sample", "The sample's index in its dataset."),
        text("name", "The sample's name."),
        *(real(name.replace(" ", "_"), f"{name} of this sample.", "1") for name in measures),
    )
    rows = [
        (
            output,
            int(sample),
            first.predictions[int(sample)].name,
            *(_finite(values.get(name)) for name in measures),
        )
        for output, comparison in found.items()
        for sample, values in sorted(comparison.by_sample.items(), key=lambda each: int(each[0]))
    ]
    return Table(
        name="divergence_samples",
        title="Sample by sample",
        columns=columns,
        rows=tuple(rows),
        verdict="A dash is undefined or infinite.",
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
