"""Top-k accuracy and confusion counts of classifiers. Pure.

Labels count classes from 0, in the order of the scores; for an ImageNet model with a background
class (1,001 classes) the caller shifts the labels. A sample whose label is None is left out of
every number and counted in `excluded`.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.accuracy.errors import NotANumber, ShapesDiffer, UnknownLabel, Unusable
from mlscope.accuracy.outcome import Outcome, require_same_length, share


def top_k(scores: ArrayLike, labels: Sequence[int | None], k: int) -> Outcome:
    """Return the share of samples whose label is among the `k` highest scores, 0 to 1.

    `scores` [samples, classes] may be probabilities or logits, `labels` has one class a sample
    (Russakovsky et al. 2015, ILSVRC). Equal scores rank by class, lowest first, as argmax does;
    where a tie decides, a caveat gives the share with all ties lost and won. Raises NotANumber,
    UnknownLabel, ShapesDiffer or Unusable.
    """
    table = np.asarray(scores, np.float64)
    if table.ndim != 2 or len(table) != len(labels):
        raise ShapesDiffer("scores [samples, classes] against labels", table.shape, len(labels))
    has_nan = np.isnan(table).any(axis=1)
    if has_nan.any():
        raise NotANumber(int(np.argmax(has_nan)))
    classes = table.shape[1]
    if not 1 <= k <= classes:
        raise Unusable("k", k, f"1 to {classes}, the classes")
    labelled, true_classes = _labelled(labels, classes)
    won, lost, ranked = label_ranks(table[labelled], true_classes)
    hits, hits_at_best, hits_at_worst = (int((rank < k).sum()) for rank in (ranked, won, lost))
    outcome = share(
        f"top-{k}",
        hits,
        len(labelled),
        "ties to the lower class",
        excluded=len(labels) - len(labelled),
    )
    caveats = []
    if hits_at_best > hits_at_worst:
        tied, n = int(((won < k) & (lost >= k)).sum()), len(labelled)
        worst, best = hits_at_worst / n, hits_at_best / n
        caveats.append(f"ties decide {tied} samples: {worst:.6g} to {best:.6g}")
    if k == classes:
        caveats.append("k is the number of classes, so every sample is a hit")
    return outcome.warning(*caveats)


def top_k_of_ranked(
    ranked: Sequence[Sequence[int]], labels: Sequence[int | None], k: int
) -> Outcome:
    """Return the share of samples whose label is among the first `k` classes of its list, 0 to 1.

    For outputs that keep only the best classes: `ranked` has a list a sample, best class first, and
    `labels` one class a sample. Raises Unusable for a labelled sample with fewer than `k` classes:
    its label could follow.
    """
    require_same_length("predictions against labels", len(ranked), len(labels))
    hits, n = _hits(ranked, [() if label is None else (label,) for label in labels], k)
    return share(f"top-{k}", hits, n, "ranked lists", excluded=len(labels) - n)


def top_k_of_admissible(
    ranked: Sequence[Sequence[Hashable]], truths: Sequence[Collection[Hashable]], k: int
) -> Outcome:
    """Return the share of samples with an admissible class among the first `k`, 0 to 1.

    Any of several correct classes counts (three kinds of cat for one photograph). `ranked` has a
    list a sample, best class first, `truths` its admissible classes; classes are numbers or names,
    the same in both. A sample without truths is excluded. Raises Unusable for a list shorter than
    `k`.
    """
    require_same_length("predictions against truths", len(ranked), len(truths))
    hits, n = _hits(ranked, truths, k)
    return share(f"top-{k}", hits, n, "any admissible class", excluded=len(truths) - n)


def _hits(
    ranked: Sequence[Sequence[Hashable]], truths: Sequence[Collection[Hashable]], k: int
) -> tuple[int, int]:
    """Return how many samples have a true class among the first `k`, of how many with truths."""
    if k < 1:
        raise Unusable("k", k, "1 or more")
    hits = n = 0
    for sample, (classes, true_classes) in enumerate(zip(ranked, truths, strict=True)):
        if not true_classes:
            continue
        if len(classes) < k:
            raise Unusable(f"classes of sample {sample}", len(classes), f"{k} or more")
        n += 1
        hits += any(predicted in true_classes for predicted in classes[:k])
    return hits, n


@dataclass(frozen=True)
class Confusion:
    """How often each label (row) was predicted as each class (column)."""

    #: integers, [classes, classes]
    counts: NDArray[np.int64]
    #: samples without a label
    excluded: int = 0

    def precision(self, label: int) -> float | None:
        """Return TP / (TP + FP); None where the class was never predicted."""
        return _ratio(self.counts[label, label], self.counts[:, label].sum())

    def recall(self, label: int) -> float | None:
        """Return TP / (TP + FN); None where no sample has the label."""
        return _ratio(self.counts[label, label], self.counts[label].sum())

    def f1(self, label: int) -> float | None:
        """Return 2 TP / (2 TP + FP + FN); None for a class without labels and predictions."""
        labelled_and_predicted = self.counts[label].sum() + self.counts[:, label].sum()
        return _ratio(2 * self.counts[label, label], labelled_and_predicted)

    def false_positive_rate(self, label: int) -> float | None:
        """Return FP / (FP + TN); None where every sample has the label."""
        without_label = self.counts.sum() - self.counts[label].sum()
        return _ratio(self.counts[:, label].sum() - self.counts[label, label], without_label)

    def accuracy(self) -> Outcome:
        """Return the share of samples predicted as labelled, 0 to 1."""
        hits, n = int(np.trace(self.counts)), int(self.counts.sum())
        return share("accuracy", hits, n, "diagonal of the confusion", excluded=self.excluded)


def confusion(predicted: Sequence[int], labels: Sequence[int | None], classes: int) -> Confusion:
    """Count `labels` against `predicted` classes, one a sample, both 0 to `classes` - 1.

    Raises UnknownLabel, ShapesDiffer.
    """
    require_same_length("predictions against labels", len(predicted), len(labels))
    labelled, true_classes = _labelled(labels, classes)
    predicted_classes = np.asarray(predicted, np.int64).reshape(-1)[labelled]
    _require_known(labelled, predicted_classes, classes)
    cells = np.bincount(true_classes * classes + predicted_classes, minlength=classes * classes)
    return Confusion(cells.reshape(classes, classes), len(labels) - len(labelled))


def _labelled(
    labels: Sequence[int | None], classes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices and the labels of the samples that have a label. Raises UnknownLabel."""
    samples = np.array([at for at, label in enumerate(labels) if label is not None], np.int64)
    true_classes = np.array([label for label in labels if label is not None], np.int64)
    _require_known(samples, true_classes, classes)
    return samples, true_classes


def _require_known(samples: NDArray[np.int64], indices: NDArray[np.int64], classes: int) -> None:
    unknown = (indices < 0) | (indices >= classes)
    if unknown.any():
        at = int(np.argmax(unknown))
        raise UnknownLabel(int(samples[at]), int(indices[at]), classes)


def label_ranks(
    table: NDArray[np.float64], true_classes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the labels' ranks, 0 the best: ties won, ties lost, and ties to the lower class.

    `table` has the scores [samples, classes], `true_classes` each sample's label [samples].
    Counting higher scores is linear in the classes, and shows ties, which sorting does not.
    """
    own = table[np.arange(len(true_classes)), true_classes][:, None]
    above, equal = (table > own).sum(axis=1), table == own
    before = np.arange(table.shape[1]) < true_classes[:, None]
    return above, above + equal.sum(axis=1) - 1, above + (equal & before).sum(axis=1)


def _ratio(count: np.int64, total: np.int64) -> float | None:
    return float(count / total) if total else None
