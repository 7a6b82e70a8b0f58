"""Top-k accuracy and confusion counts of classifiers.

Labels count classes from 0, in the order of the scores; an ImageNet model with a background class
has 1,001 and its labels are the caller's to shift. A sample whose label is None is left out of
every number and counted in `excluded`.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.accuracy.errors import NotANumber, ShapesDiffer, UnknownLabel, Unusable
from mlscope.accuracy.outcome import Outcome, require_same_length, share


def top_k(scores: ArrayLike, labels: Sequence[int | None], k: int) -> Outcome:
    """Share of samples whose label is among the `k` highest scores [samples, classes].

    Scores may be probabilities or logits (Russakovsky et al. 2015, ILSVRC). Equal scores rank by
    class, lowest first, as argmax does; where that alone decides, a caveat gives the share with
    every such tie lost and won. Raises NotANumber, UnknownLabel, ShapesDiffer or Unusable.
    """
    table = _table(scores, len(labels))
    classes = table.shape[1]
    if not 1 <= k <= classes:
        raise Unusable("k", k, f"1 to {classes}, the classes")
    kept, wanted = _labelled(labels, classes)
    won, lost, ranked = _places(table[kept], wanted)
    hits, most, least = (int((place < k).sum()) for place in (ranked, won, lost))
    found = share(
        f"top-{k}", hits, len(kept), "ties to the lower class", excluded=len(labels) - len(kept)
    )
    caveats = []
    if most > least:
        tied = int(((won < k) & (lost >= k)).sum())
        caveats.append(f"{tied} decided by tie: {least / len(kept):.6g} to {most / len(kept):.6g}")
    if k == classes:
        caveats.append("k is the number of classes: every sample counts")
    return found.warning(*caveats)


def top_k_of_ranked(
    ranked: Sequence[Sequence[int]], labels: Sequence[int | None], k: int
) -> Outcome:
    """Share of samples whose label is among the first `k` classes of its list, best first.

    For outputs that keep only the best classes. A labelled sample's list shorter than `k` raises
    Unusable: whether the label would have followed is not known.
    """
    require_same_length("predictions against labels", len(ranked), len(labels))
    if k < 1:
        raise Unusable("k", k, "1 or more")
    hits = n = 0
    for sample, (classes, label) in enumerate(zip(ranked, labels, strict=True)):
        if label is None:
            continue
        if len(classes) < k:
            raise Unusable(f"classes of sample {sample}", len(classes), f"{k} or more")
        n += 1
        hits += label in classes[:k]
    return share(f"top-{k}", hits, n, "ranked lists", excluded=len(labels) - n)


def top_k_of_admissible(
    ranked: Sequence[Sequence[Hashable]], truths: Sequence[Collection[Hashable]], k: int
) -> Outcome:
    """Share of samples with an admissible class among the first `k` of its list, best first.

    Where several classes are right (three kinds of cat for one photograph), any of them counts.
    Classes are compared as they are: numbers or names, but the same in lists and truths. A sample
    without truths is excluded; a list shorter than `k` raises Unusable.
    """
    require_same_length("predictions against truths", len(ranked), len(truths))
    if k < 1:
        raise Unusable("k", k, "1 or more")
    hits = n = 0
    for sample, (classes, right) in enumerate(zip(ranked, truths, strict=True)):
        if not right:
            continue
        if len(classes) < k:
            raise Unusable(f"classes of sample {sample}", len(classes), f"{k} or more")
        n += 1
        hits += any(each in right for each in classes[:k])
    return share(f"top-{k}", hits, n, "any admissible class", excluded=len(truths) - n)


@dataclass(frozen=True)
class Confusion:
    """How often each label (row) was predicted as each class (column)."""

    #: whole numbers, shape [classes, classes]
    counts: NDArray[np.int64]
    #: samples without a label
    excluded: int = 0

    def precision(self, label: int) -> float | None:
        """TP / (TP + FP); None where the class was never predicted."""
        return _ratio(self.counts[label, label], self.counts[:, label].sum())

    def recall(self, label: int) -> float | None:
        """TP / (TP + FN); None where no sample has the label."""
        return _ratio(self.counts[label, label], self.counts[label].sum())

    def f1(self, label: int) -> float | None:
        """2 TP / (2 TP + FP + FN); None where the class is neither label nor prediction."""
        both = self.counts[label].sum() + self.counts[:, label].sum()
        return _ratio(2 * self.counts[label, label], both)

    def false_positive_rate(self, label: int) -> float | None:
        """FP / (FP + TN); None where every sample has the label."""
        others = self.counts.sum() - self.counts[label].sum()
        return _ratio(self.counts[:, label].sum() - self.counts[label, label], others)

    def accuracy(self) -> Outcome:
        """Share of samples predicted as labelled."""
        hits, n = int(np.trace(self.counts)), int(self.counts.sum())
        return share("accuracy", hits, n, "diagonal of the confusion", excluded=self.excluded)


def confusion(predicted: Sequence[int], labels: Sequence[int | None], classes: int) -> Confusion:
    """Count labels against predictions, both 0 to `classes` - 1; raises UnknownLabel."""
    require_same_length("predictions against labels", len(predicted), len(labels))
    kept, wanted = _labelled(labels, classes)
    found = np.asarray(predicted, np.int64).reshape(-1)[kept]
    _require_known(kept, found, classes)
    cells = np.bincount(wanted * classes + found, minlength=classes * classes)
    return Confusion(cells.reshape(classes, classes), len(labels) - len(kept))


def _table(scores: ArrayLike, samples: int) -> NDArray[np.float64]:
    """Scores as float64 [samples, classes], none of them NaN."""
    table = np.asarray(scores, np.float64)
    if table.ndim != 2 or len(table) != samples:
        raise ShapesDiffer("scores [samples, classes] against labels", table.shape, samples)
    broken = np.isnan(table).any(axis=1)
    if broken.any():
        raise NotANumber(int(np.argmax(broken)))
    return table


def _labelled(
    labels: Sequence[int | None], classes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the labelled samples: their indices, their labels."""
    kept = np.array([at for at, label in enumerate(labels) if label is not None], np.int64)
    wanted = np.array([label for label in labels if label is not None], np.int64)
    _require_known(kept, wanted, classes)
    return kept, wanted


def _require_known(samples: NDArray[np.int64], found: NDArray[np.int64], classes: int) -> None:
    unknown = (found < 0) | (found >= classes)
    if unknown.any():
        at = int(np.argmax(unknown))
        raise UnknownLabel(int(samples[at]), int(found[at]), classes)


def _places(
    table: NDArray[np.float64], wanted: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Places of the labels, 0 the best: with ties won, with ties lost, with the lower class first.

    Counting beats sorting: it is linear in the classes and knows about ties.
    """
    own = table[np.arange(len(wanted)), wanted][:, None]
    above, equal = (table > own).sum(axis=1), table == own
    before = np.arange(table.shape[1]) < wanted[:, None]
    return above, above + equal.sum(axis=1) - 1, above + (equal & before).sum(axis=1)


def _ratio(part: np.int64, whole: np.int64) -> float | None:
    return float(part / whole) if whole else None
