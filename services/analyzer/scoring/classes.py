"""Classes: top-k by label where both sides have labels, else by class number."""

import math
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlscope.accuracy import Outcome, UnknownLabel, top_k_of_admissible
from mlscope.counts import be, many, verb
from services.analyzer.frames.evaluation import ScoringContext
from services.analyzer.frames.predictions import Prediction
from services.analyzer.scoring.judgement import Judgement

_Pair = tuple[list[frozenset[Any]], frozenset[Any]]
"""The classes of an answer, best first, and the true ones; a class is a set of names."""


def classes(predictions: Sequence[Prediction], _: ScoringContext) -> list[Judgement]:
    """Return top-1 and top-5 over the samples whose class is known.

    A sample whose class the model does not have counts as wrong.
    """
    answers = [prediction for prediction in predictions if prediction.features]
    empty = len(predictions) - len(answers)
    by_label = any(
        feature.get("label") for answer in answers for feature in answer.features
    ) and any(answer.truth.get("labels") for answer in answers)
    pairs = [_ranked_and_true(answer, by_label=by_label) for answer in answers]
    judged = sum(bool(truth) for _, truth in pairs)
    # A list of three says nothing about top-5.
    shortest = min((len(ranked) for ranked, truth in pairs if truth), default=0)
    unknown = [] if by_label else list(filter(None, map(_unknown_class, answers)))
    judgements = []
    for k in (1, 5) if shortest >= 5 else (1,):
        outcome = _top_k(pairs, k, by_label=by_label)
        if empty:
            outcome = replace(outcome, excluded=outcome.excluded + empty)
            excluded = f"{many(empty, 'answer')} without a class {be(empty)} excluded"
            outcome = outcome.warning(excluded)
        if unknown:
            count = len(unknown)
            outcome = outcome.warning(
                f"{many(count, 'sample')} {verb(count, 'has', 'have')} a class that the "
                f"model does not know and {verb(count, 'counts', 'count')} as wrong,"
                f" first: {unknown[0]}"
            )
        judgements.append(Judgement(outcome, judged=judged))
    return judgements


def _ranked_and_true(answer: Prediction, *, by_label: bool) -> _Pair:
    """Return the names (`by_label`) or numbers of an answer's classes, best first, and the true."""
    if by_label:
        ranked = [_names(str(feature.get("label", ""))) for feature in answer.features]
        true_names = (_names(str(label)) for label in answer.truth.get("labels", ()))
        return ranked, frozenset[Any]().union(*true_names)
    numbers = [frozenset([f["index"]] if "index" in f else []) for f in answer.features]
    return numbers, frozenset(map(int, answer.truth.get("classes", ())))


def _top_k(pairs: Sequence[_Pair], k: int, *, by_label: bool) -> Outcome:
    """Return top-k; a class may have several names, of which one right name is enough."""
    hits = [
        ["right" if names & truth else place for place, names in enumerate(ranked)]
        for ranked, truth in pairs
    ]
    outcome = top_k_of_admissible(hits, [{"right"} if truth else () for _, truth in pairs], k)
    method = f"{outcome.method}, by {'label' if by_label else 'class number'}"
    outcome = replace(outcome, method=method)
    if not by_label or not outcome.n:
        return outcome
    answered = frozenset[Any]().union(*(names for ranked, _ in pairs for names in ranked))
    if answered.isdisjoint(frozenset[Any]().union(*(truth for _, truth in pairs))):
        outcome = outcome.warning("no answer has a label of the dataset: are the labels the same?")
    return outcome


def _unknown_class(answer: Prediction) -> str:
    """Return the error where none of a sample's true classes is one of the model's, else ''."""
    true_classes = [int(number) for number in answer.truth.get("classes", ())]
    # Raw scores (float32 in base64), which tell the number of classes, are kept if small.
    sizes = {len(b64decode(raw)) // 4 for raw in answer.raw.values()}
    size = sizes.pop() if len(sizes) == 1 else math.inf
    if not true_classes or any(0 <= number < size for number in true_classes):
        return ""
    if size in (0, math.inf):
        return f"sample {answer.sample} is labelled {true_classes[0]}"
    return str(UnknownLabel(answer.sample, true_classes[0], int(size)))


def _names(label: str) -> frozenset[str]:
    """Return a label's names in lower case: ImageNet writes `tench, Tinca tinca`."""
    names = (name.strip().casefold() for name in (label, *label.split(",")))
    return frozenset(name for name in names if name)
