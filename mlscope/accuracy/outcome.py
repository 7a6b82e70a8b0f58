"""The result of one metric, the same form for all of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlscope.accuracy.errors import NotANumber, ShapesDiffer
from mlscope.statistics import Interval, Resampling, mean_interval, wilson

#: fewer bootstrap resamples than for latencies: a dataset's mean needs no sharper ends
RESAMPLING = Resampling(resamples=1000, seed=1)


@dataclass(frozen=True)
class Outcome:
    """What one metric says of a dataset; raises NotANumber for a value that is not finite."""

    #: "top-1", "mAP", "word error rate", ...
    name: str
    #: in the unit that `method` names; None where there is nothing it could be computed from
    value: float | None
    #: how many samples the value stands on (`method` says of what: images, questions, words)
    n: int
    #: None where no interval is sound or the samples are too few
    interval: Interval | None
    #: how it was computed, with its convention, so that two numbers can be told apart
    method: str
    #: what a reader must know before comparing the number with another
    caveats: tuple[str, ...] = ()
    #: samples that were given but left out: unlabelled, unanswered, undefined
    excluded: int = 0

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise NotANumber(self.name)

    def warning(self, *caveats: str) -> "Outcome":
        """Add caveats."""
        return replace(self, caveats=(*self.caveats, *caveats))


def share(name: str, hits: int, n: int, method: str, *, excluded: int = 0) -> Outcome:
    """`hits` of `n` with Wilson's interval; without samples neither value nor interval."""
    if n == 0:
        return Outcome(name, None, 0, None, method, ("no sample to judge by",), excluded)
    return Outcome(name, hits / n, n, wilson(hits, n), f"{method}: {hits} of {n}", (), excluded)


def mean(
    name: str,
    values: Sequence[float],
    method: str,
    *,
    caveats: tuple[str, ...] = (),
    excluded: int = 0,
) -> Outcome:
    """Mean of one finite value a sample, with a seeded bootstrap interval over the samples."""
    if len(values) == 0:
        return Outcome(name, None, 0, None, method, (*caveats, "no sample to judge by"), excluded)
    for sample, value in enumerate(values):
        if not math.isfinite(value):
            raise NotANumber(sample)
    interval = mean_interval(values, resampling=RESAMPLING) if len(values) > 1 else None
    middle = math.fsum(values) / len(values)
    return Outcome(name, middle, len(values), interval, method, caveats, excluded)


def require_same_length(what: str, first: int, second: int) -> None:
    """Raise ShapesDiffer unless `first` equals `second`."""
    if first != second:
        raise ShapesDiffer(what, first, second)
