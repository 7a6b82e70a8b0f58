"""Answers against truths: which metrics a kind of answer has, and what each says of a dataset.

What decides is the kind of the answers and what their dataset knows, not the name of a task; but
texts are questions' answers or transcripts, which only the task tells. The formulas are
`mlscope.accuracy`'s.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from mlscope.accuracy import (
    Found,
    Mask,
    Outcome,
    PixelCounts,
    Truth,
    UnknownLabel,
    Unusable,
    auc,
    average_precision,
    character_error_rate,
    exact_match,
    f1,
    mean_iou_of_images,
    top_k_of_admissible,
    word_error_rate,
)
from mlscope.accuracy.outcome import mean
from services.analyzer.frames import Aim
from services.analyzer.predictions import Prediction

IMAGE_DRAWS = 1000
"""Draws of images for mean IoU, which are cheap."""

SHAPE_DRAWS = 200
"""Draws of images for average precision, which are dear."""


MOST_CLASSES = 1024
"""Classes of a map: each image has a table of them squared."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one metric says; `unit` is the value's, `counts` what its `n` counts."""

    outcome: Outcome
    counts: str = "samples"
    unit: str = "1"
    #: samples it was computed of
    judged: int = 0


Judge = Callable[[Sequence[Prediction], Aim], list[Judgement]]


def judge(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:
    """Return what each metric that fits the answers says; none fits where nothing is known.

    Raises AccuracyError.
    """
    kinds = [answer.kind for answer in answers if _is_known(answer) and answer.kind]
    judge_of = _JUDGES.get(max(set(kinds), key=kinds.count)) if kinds else None
    if judge_of is None:
        return []
    return judge_of([each for each in answers if _is_known(each)], aim)


def _is_known(answer: Prediction) -> bool:
    return bool(answer.truth or answer.judged)


def _classes(given: Sequence[Prediction], aim: Aim) -> list[Judgement]:  # noqa: ARG001
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
    return [Judgement(_without_empty(each, empty), judged=judged) for each in found]


def _without_empty(outcome: Outcome, empty: int) -> Outcome:
    """Count answers without any class as excluded, and say so."""
    if not empty:
        return outcome
    outcome = replace(outcome, excluded=outcome.excluded + empty)
    return outcome.warning(f"{empty} answers named no class and are excluded")


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
    outcome = Outcome(**{**_fields(outcome), "method": method})
    answered = frozenset().union(*(names for each in ranked for names in each))
    if by_name and outcome.n and not answered & frozenset().union(*truths):
        outcome = outcome.warning("no label of the dataset was answered once: are they the same?")
    return outcome


def _fields(outcome: Outcome) -> dict[str, Any]:
    return {name: getattr(outcome, name) for name in Outcome.__dataclass_fields__}


def _key(feature: Mapping[str, Any], *, by_name: bool) -> frozenset[Any]:
    if by_name:
        return _synonyms(str(feature.get("label", "")))
    return frozenset([feature["index"]]) if "index" in feature else frozenset()


def _names_of(answer: Prediction) -> frozenset[Any]:
    return frozenset().union(*(_synonyms(str(each)) for each in answer.truth.get("labels", ())))


def _numbers_of(answer: Prediction) -> frozenset[Any]:
    """Return the classes that are right. Raises UnknownLabel for one that the model has not."""
    told = [int(each) for each in answer.truth.get("classes", ())]
    # The numbers that classes were chosen from are kept of small outputs alone: float32, base64.
    sizes = {len(b64decode(each)) // 4 for each in answer.raw.values()}
    most = sizes.pop() if len(sizes) == 1 else None
    for each in told:
        if each < 0 or (most is not None and each >= most):
            raise UnknownLabel(answer.sample, each, most or max(told) + 1)
    return frozenset(told)


def _synonyms(label: str) -> frozenset[str]:
    """Return a label's names, in no case: ImageNet writes `tench, Tinca tinca`."""
    names = (each.strip().casefold() for each in (label, *label.split(",")))
    return frozenset(each for each in names if each)


def _shapes(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:
    known = [answer for answer in answers if "objects" in answer.truth]
    if not known:
        return []
    numbers = _Numbers(known)
    has_masks = known[0].kind == "instancesegment"
    pairs = [_masks(each, numbers) if has_masks else _boxes(each, numbers, aim) for each in known]
    whole = [pair for pair in pairs if pair is not None]
    if not whole:
        outcome = Outcome("mAP", None, 0, None, "COCO", (_NOT_PLACED,), len(pairs))
        return [Judgement(outcome, "true shapes")]
    truths, found = zip(*whole, strict=True)
    outcomes = average_precision(truths, found, draws=SHAPE_DRAWS).outcomes
    kind = "masks" if has_masks else "boxes"
    told = []
    for name, shown in (("AP", "mAP"), ("AP50", "mAP50"), ("AP75", "mAP75"), ("AR100", "AR100")):
        fields = _fields(outcomes[name]) | {"name": shown, "excluded": len(pairs) - len(whole)}
        fields["method"] = f"{outcomes[name].method}, {kind}"
        outcome = Outcome(**fields)
        if len(pairs) > len(whole):
            outcome = outcome.warning(f"{len(pairs) - len(whole)} samples: {_NOT_PLACED}")
        told.append(Judgement(outcome, "true shapes", judged=len(whole)))
    return told


_NOT_PLACED = "shapes could not be placed on the picture, or were too large to be kept"


class _Numbers:
    """Class numbers of a dataset's objects by name, as far as its truths name them."""

    def __init__(self, answers: Sequence[Prediction]) -> None:
        self._by_name: dict[str, int] = {}
        for answer in answers:
            pairs = zip(
                answer.truth.get("labels", ()), answer.truth.get("classes", ()), strict=False
            )
            self._by_name |= {str(name).casefold(): int(number) for name, number in pairs}
        self._unknown: dict[str, int] = {}

    def of(self, feature: Mapping[str, Any]) -> int:
        """Return a shape's class; of a name that is nowhere true a number of its own."""
        name = str(feature.get("label") or "").casefold()
        if not name or not self._by_name:
            return int(feature["index"])
        if name in self._by_name:
            return self._by_name[name]
        return self._unknown.setdefault(name, -1 - len(self._unknown))


Pair = tuple[Truth, Found] | None


def _boxes(answer: Prediction, numbers: _Numbers, aim: Aim) -> Pair:
    """Return a picture's true and found boxes in its own pixels; None where that can't be."""
    objects = answer.truth["objects"]
    kept = [each for each in answer.features if "xmin" in each]
    corners = np.array(
        [[each[side] for side in ("xmin", "ymin", "xmax", "ymax")] for each in kept], np.float64
    ).reshape(-1, 4)
    scale = _scale(corners, objects.get("size", (0, 0)), aim)
    if scale is None or "left_out_features" in (answer.features[-1] if answer.features else {}):
        return None
    corners = corners * np.array([*scale, *scale])
    boxes = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
    boxes[:, 2:] = np.clip(boxes[:, 2:], 0.0, None)
    return _truth(objects, objects["boxes"]), Found.of(
        boxes, [numbers.of(each) for each in kept], [each["probability"] for each in kept]
    )


def _scale(corners: Any, size: Sequence[int], aim: Aim) -> tuple[float, float] | None:
    """Return what x and y of found boxes are multiplied with to be the picture's pixels.

    Boxes within 0 to 1 (a little beyond at the edges) are shares of the picture; others are pixels
    of what the model saw: the picture, or what it was resized to.
    """
    height, width = size
    if aim.is_cut:
        return None
    if corners.size and np.abs(corners).max() <= _MOST_SHARE:
        return (float(width), float(height)) if width and height else None
    if aim.resized is None:
        return 1.0, 1.0
    return (width / aim.resized[1], height / aim.resized[0]) if width and height else None


_MOST_SHARE = 1.5


def _masks(answer: Prediction, numbers: _Numbers) -> Pair:
    """Return a picture's true and found masks; None where one is a polygon or was left out."""
    objects = answer.truth["objects"]
    true = [_mask(each) for each in objects.get("segmentations", ())]
    found = [_mask(each.get("mask")) for each in answer.features]
    if any(each is None for each in (*true, *found)) or len(true) != len(objects["boxes"]):
        return None
    return _truth(objects, [each for each in true if each]), Found.of(
        [each for each in found if each],
        [numbers.of(each) for each in answer.features],
        [each["probability"] for each in answer.features],
    )


def _truth(objects: Mapping[str, Any], shapes: Any) -> Truth:
    return Truth.of(shapes, objects["classes"], objects["crowd"], objects["areas"])


def _mask(told: Any) -> Mask | None:
    """Return a mask of uncompressed run lengths; None of anything else."""
    if not isinstance(told, Mapping) or not isinstance(told.get("counts"), list | tuple):
        return None
    height, width = told["size"]
    return Mask(int(height), int(width), tuple(int(each) for each in told["counts"]))


def _pixels(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:  # noqa: ARG001
    told = [answer.judged["pixels"] for answer in answers if "pixels" in answer.judged]
    failed = [str(answer.judged["error"]) for answer in answers if "error" in answer.judged]
    if not told:
        return [_none("mIoU", failed)] if failed else []
    places = [place for each in told for row in each["counts"] for place in row[:2]]
    classes = 1 + max(places, default=0)
    if min(places, default=0) < 0 or classes > MOST_CLASSES:
        wrong = min(places) if min(places) < 0 else classes - 1
        raise Unusable("a class of a map", wrong, f"0 to {MOST_CLASSES - 1}")
    images = []
    for each in told:
        counts = np.zeros((classes, classes), np.int64)
        for label, seen, pixels in each["counts"]:
            counts[label, seen] += pixels
        images.append(PixelCounts(counts, 1, each["ignored"]))
    both = mean_iou_of_images(images, IMAGE_DRAWS)
    return [
        Judgement(_warned(outcome, failed), "labelled pixels", judged=len(images))
        for outcome in both
    ]


def _pictures(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:  # noqa: ARG001
    told = [answer.judged["picture"] for answer in answers if "picture" in answer.judged]
    failed = [str(answer.judged["error"]) for answer in answers if "error" in answer.judged]
    if not told:
        return [_none("PSNR", failed)] if failed else []
    decibels = [each["psnr"] for each in told if each["psnr"] is not None]
    same = len(told) - len(decibels)
    caveats = (f"{same} equal pictures have infinite PSNR and are not in the mean",) if same else ()
    psnr = mean("PSNR", decibels, "mean of pictures, peak 255", caveats=caveats, excluded=same)
    ssim = mean("SSIM", [each["ssim"] for each in told], "mean of pictures, gaussian window")
    return [
        Judgement(_warned(psnr, failed), unit="dB", judged=len(told)),
        Judgement(_warned(ssim, failed), judged=len(told)),
    ]


def _texts(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:
    known = [answer for answer in answers if answer.texts is not None]
    if not known:
        return []
    said = [str(answer.best or "") for answer in known]
    right = [answer.texts or [] for answer in known]
    if "question" in aim.task.casefold():
        # SQuAD v2: a question without answer is answered rightly by nothing.
        accepted = [each or [""] for each in right]
        outcomes = exact_match(said, accepted), _f1(said, accepted)
        return [Judgement(each, "questions", judged=len(known)) for each in outcomes]
    true = [each[0] if each else None for each in right]
    return [
        Judgement(word_error_rate(said, true), "true words", judged=len(known)),
        Judgement(character_error_rate(said, true), "true characters", judged=len(known)),
    ]


def _f1(said: Sequence[str], accepted: Sequence[Sequence[str]]) -> Outcome:
    """Return SQuAD's F1; where nothing is right, nothing said counts 1, as in its script for v2."""
    scored = [
        (answer, right) if right != [""] else ("nothing", ["nothing" if not answer else "no"])
        for answer, right in zip(said, accepted, strict=True)
    ]
    return f1([answer for answer, _ in scored], [right for _, right in scored])


def _scores(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:  # noqa: ARG001
    pairs = [(_score(each), _yes_or_no(each)) for each in answers]
    known = [(score, label) for score, label in pairs if score is not None and label is not None]
    if not known:
        return []
    outcome = auc([score for score, _ in known], [label for _, label in known])
    return [Judgement(outcome, judged=len(known))]


def _score(answer: Prediction) -> float | None:
    values = answer.features[0].get("values") if answer.features else None
    return float(values[0]) if isinstance(values, list) and len(values) == 1 else None


def _yes_or_no(answer: Prediction) -> int | None:
    told = list(answer.truth.get("values") or answer.truth.get("classes") or [])
    return int(told[0]) if len(told) == 1 and told[0] in (0, 1) else None


def _none(name: str, failed: Sequence[str]) -> Judgement:
    return Judgement(_warned(Outcome(name, None, 0, None, "", (), len(failed)), failed))


def _warned(outcome: Outcome, failed: Sequence[str]) -> Outcome:
    if not failed:
        return outcome
    return outcome.warning(f"{len(failed)} samples could not be judged, first: {failed[0]}")


_JUDGES: Mapping[str, Judge] = MappingProxyType(
    {
        "classification": _classes,
        "boundingbox": _shapes,
        "instancesegment": _shapes,
        "semanticsegment": _pixels,
        "image": _pictures,
        "text": _texts,
        "raw": _scores,
    }
)
