"""Classes: top-k by label where both sides have labels, else by class number."""

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlscope.accuracy import Outcome, UnknownLabel, top_k_of_admissible
from mlscope.counts import be, many, verb
from services.analyzer.frames.evaluation import ScoringContext
from services.analyzer.frames.predictions import Prediction
from services.analyzer.scoring.judgement import Judgement


def classes(predictions: Sequence[Prediction], _: ScoringContext) -> list[Judgement]:
    """Return top-1 and top-5 over the samples whose class is known.

    A sample whose class the model does not have counts as wrong.
    """
    answers = [prediction for prediction in predictions if prediction.features]
    empty = len(predictions) - len(answers)
    by_label = any(
        feature.get("label") for answer in answers for feature in answer.features
    ) and any(answer.truth.get("labels") for answer in answers)
    if by_label:
        ranked = [[_names(str(f.get("label", ""))) for f in a.features] for a in answers]
        truths = [
            frozenset[Any]().union(*(_names(str(label)) for label in a.truth.get("labels", ())))
            for a in answers
        ]
    else:
        ranked = [
            [frozenset([f["index"]]) if "index" in f else frozenset() for f in a.features]
            for a in answers
        ]
        truths = [frozenset(int(n) for n in a.truth.get("classes", ())) for a in answers]
    judged = sum(bool(truth) for truth in truths)
    lengths = (len(names) for names, truth in zip(ranked, truths, strict=True) if truth)
    # A list of three says nothing about top-5.
    shortest = min(lengths, default=0)
    sizes = [k for k in (1, 5) if k <= max(shortest, 1)]
    unknown = [] if by_label else [note for note in map(_unknown_class, answers) if note]
    judgements = []
    for k in sizes:
        outcome = _top_k(ranked, truths, k, by_label=by_label)
        if empty:
            outcome = replace(outcome, excluded=outcome.excluded + empty)
            excluded = f"{many(empty, 'answer')} named no class and {be(empty)} excluded"
            outcome = outcome.warning(excluded)
        if unknown:
            count = len(unknown)
            outcome = outcome.warning(
                f"{many(count, 'sample')} {verb(count, 'has', 'have')} a class that the "
                f"model does not have and {verb(count, 'counts', 'count')} as wrong,"
                f" first: {unknown[0]}"
            )
        judgements.append(Judgement(outcome, judged=judged))
    return judgements


def _top_k(
    ranked: Sequence[Sequence[frozenset[Any]]],
    truths: Sequence[frozenset[Any]],
    k: int,
    *,
    by_label: bool,
) -> Outcome:
    """Return top-k; a class may have several names, of which one right name is enough."""
    hits = [
        ["right" if names & right else place for place, names in enumerate(answer)]
        for answer, right in zip(ranked, truths, strict=True)
    ]
    outcome = top_k_of_admissible(hits, [{"right"} if right else () for right in truths], k)
    method = f"{outcome.method}, by {'label' if by_label else 'class number'}"
    outcome = replace(outcome, method=method)
    answered = frozenset[Any]().union(*(names for answer in ranked for names in answer))
    if by_label and outcome.n and not answered & frozenset[Any]().union(*truths):
        outcome = outcome.warning("no answer has a label of the dataset: are the labels the same?")
    return outcome


def _unknown_class(answer: Prediction) -> str:
    """Return the error where none of a sample's true classes is one of the model's, else ''."""
    true_classes = [int(number) for number in answer.truth.get("classes", ())]
    # Raw scores (float32 in base64), which tell the number of classes, are kept if small.
    sizes = {len(b64decode(raw)) // 4 for raw in answer.raw.values()}
    size = sizes.pop() if len(sizes) == 1 else None
    if not true_classes or any(n >= 0 and (size is None or n < size) for n in true_classes):
        return ""
    if size:
        return str(UnknownLabel(answer.sample, true_classes[0], size))
    return f"sample {answer.sample} is labelled {true_classes[0]}"


def _names(label: str) -> frozenset[str]:
    """Return a label's names in lower case: ImageNet writes `tench, Tinca tinca`."""
    names = (name.strip().casefold() for name in (label, *label.split(",")))
    return frozenset(name for name in names if name)
