"""Classes: top-k, by label where both sides name them, else by number."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlscope.accuracy import Outcome, UnknownLabel, top_k_of_admissible
from mlscope.counts import be, many, verb
from services.analyzer.frames import Aim
from services.analyzer.judging.judgement import Judgement
from services.analyzer.predictions import Prediction


def classes(given: Sequence[Prediction], aim: Aim) -> list[Judgement]:  # noqa: ARG001
    """Return top-1 and top-5 over the samples whose class is known.

    A sample whose class the model does not have counts as wrong.
    """
    answers = [answer for answer in given if answer.features]
    by_name = any(f.get("label") for a in answers for f in a.features) and any(
        a.truth.get("labels") for a in answers
    )
    named = _names_of if by_name else _numbers_of
    ranked = [[_key(each, by_name=by_name) for each in answer.features] for answer in answers]
    truths = [named(answer) for answer in answers]
    judged = sum(bool(each) for each in truths)
    shortest = min((len(r) for r, t in zip(ranked, truths, strict=True) if t), default=0)
    # Which of five is right can't be told of a list of three.
    sizes = [k for k in (1, 5) if k <= max(shortest, 1)]
    found = (_top(ranked, truths, k, by_name=by_name) for k in sizes)
    empty = len(given) - len(answers)
    strange = [] if by_name else [each for each in map(_strange, answers) if each]
    return [
        Judgement(_with_strange(_without_empty(each, empty), strange), judged=judged)
        for each in found
    ]


def _with_strange(outcome: Outcome, strange: Sequence[str]) -> Outcome:
    """Say how many samples have a class that the model does not have."""
    if not strange:
        return outcome
    return outcome.warning(
        f"{many(len(strange), 'sample')} {verb(len(strange), 'has', 'have')} a class that the "
        f"model does not have and {verb(len(strange), 'counts', 'count')} as wrong,"
        f" first: {strange[0]}"
    )


def _without_empty(outcome: Outcome, empty: int) -> Outcome:
    """Count answers without any class as excluded, and say so."""
    if not empty:
        return outcome
    outcome = replace(outcome, excluded=outcome.excluded + empty)
    return outcome.warning(f"{many(empty, 'answer')} named no class and {be(empty)} excluded")


def _top(
    ranked: Sequence[Sequence[frozenset[Any]]],
    truths: Sequence[frozenset[Any]],
    k: int,
    *,
    by_name: bool,
) -> Outcome:
    """Return top-k; a class may have several names, one of them right is enough."""
    hit = [
        [("right" if names & right else place) for place, names in enumerate(each)]
        for each, right in zip(ranked, truths, strict=True)
    ]
    outcome = top_k_of_admissible(hit, [{"right"} if right else () for right in truths], k)
    method = f"{outcome.method}, by {'label' if by_name else 'class number'}"
    outcome = replace(outcome, method=method)
    answered = frozenset().union(*(names for each in ranked for names in each))
    if by_name and outcome.n and not answered & frozenset().union(*truths):
        outcome = outcome.warning("no label of the dataset was answered once: are they the same?")
    return outcome


def _key(feature: Mapping[str, Any], *, by_name: bool) -> frozenset[Any]:
    if by_name:
        return _synonyms(str(feature.get("label", "")))
    return frozenset([feature["index"]]) if "index" in feature else frozenset()


def _names_of(answer: Prediction) -> frozenset[Any]:
    return frozenset().union(*(_synonyms(str(each)) for each in answer.truth.get("labels", ())))


def _numbers_of(answer: Prediction) -> frozenset[Any]:
    return frozenset(int(each) for each in answer.truth.get("classes", ()))


def _strange(answer: Prediction) -> str:
    """Say what is wrong where none of a sample's true classes is one of the model's; else ''."""
    told = [int(each) for each in answer.truth.get("classes", ())]
    # The numbers that classes were chosen from are kept of small outputs alone: float32, base64.
    sizes = {len(b64decode(each)) // 4 for each in answer.raw.values()}
    most = sizes.pop() if len(sizes) == 1 else None
    if not told or any(each >= 0 and (most is None or each < most) for each in told):
        return ""
    return (
        str(UnknownLabel(answer.sample, told[0], most))
        if most
        else (f"sample {answer.sample} is labelled {told[0]}")
    )


def _synonyms(label: str) -> frozenset[str]:
    """Return a label's names, in no case: ImageNet writes `tench, Tinca tinca`."""
    names = (each.strip().casefold() for each in (label, *label.split(",")))
    return frozenset(each for each in names if each)
