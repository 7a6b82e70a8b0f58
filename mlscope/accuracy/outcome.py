"""Result of one metric, in the same form for all metrics. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlscope.accuracy.errors import NotANumber, ShapesDiffer
from mlscope.statistics import Interval, Resampling, mean_interval, wilson

#: fewer bootstrap resamples than for latencies: the mean of a dataset needs no finer bounds
RESAMPLING = Resampling(resamples=1000, seed=1)


@dataclass(frozen=True)
class Outcome:
    """The value of one metric on a dataset. Raises NotANumber for a value that is not finite."""

    #: "top-1", "mAP", "word error rate", ...
    name: str
    #: in the unit that `method` names; None where no sample allows one
    value: float | None
    #: number of samples behind the value (`method` says of which kind: images, questions, words)
    n: int
    #: None where no method is valid or the samples are too few
    interval: Interval | None
    #: how it was computed, with its convention
    method: str
    #: limits that matter when the number is compared with another
    caveats: tuple[str, ...] = ()
    #: samples left out: without a label, without an answer, undefined
    excluded: int = 0

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise NotANumber(self.name)

    def warning(self, *caveats: str) -> "Outcome":
        """Return the outcome with further caveats."""
        return replace(self, caveats=(*self.caveats, *caveats))


def share(name: str, hits: int, n: int, method: str, *, excluded: int = 0) -> Outcome:
    """Return the share `hits` / `n`, 0 to 1, with Wilson's 95% interval, under `name`.

    `method` says what counts as a hit, `excluded` how many samples were left out. Without samples
    the outcome has neither value nor interval.
    """
    if n == 0:
        return Outcome(name, None, 0, None, method, ("no sample to judge",), excluded)
    return Outcome(name, hits / n, n, wilson(hits, n), f"{method}: {hits} of {n}", (), excluded)


def mean(
    name: str,
    values: Sequence[float],
    method: str,
    *,
    caveats: tuple[str, ...] = (),
    excluded: int = 0,
) -> Outcome:
    """Return the mean of `values`, one a sample, with a seeded bootstrap interval over the samples.

    `name`, `method`, `caveats` and `excluded` (samples) become the outcome's. Raises NotANumber,
    naming the sample, for a value that is not finite. Without samples the outcome has no value.
    """
    if len(values) == 0:
        return Outcome(name, None, 0, None, method, (*caveats, "no sample to judge"), excluded)
    for sample, value in enumerate(values):
        if not math.isfinite(value):
            raise NotANumber(sample)
    interval = mean_interval(values, resampling=RESAMPLING) if len(values) > 1 else None
    middle = math.fsum(values) / len(values)
    return Outcome(name, middle, len(values), interval, method, caveats, excluded)


def require_same_length(pair: str, first: int, second: int) -> None:
    """Raise ShapesDiffer, naming the `pair`, unless the lengths `first` and `second` are equal."""
    if first != second:
        raise ShapesDiffer(pair, first, second)
