"""Which of several estimates is best, and which the intervals do not distinguish from it.

Two estimates are distinguished where their 95% intervals do not overlap. For intervals of equal
width that is a test at 0.6% (Schenker and Gentleman 2001), strict enough for eight comparisons
with the best at 5% together (Bonferroni). A reader can check it in the columns of the intervals.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlscope.statistics.errors import NoValues


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with the ends of its confidence interval; an end is None where it is unknown."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Best:
    """The place of the best of several estimates, and those of its rivals, the best first.

    A rival is an estimate that is not distinguished from the best.
    """

    place: int
    rivals: tuple[int, ...]

    @property
    def is_beyond_doubt(self) -> bool:
        """Whether every other estimate is distinguished from the best."""
        return not self.rivals


def best(estimates: Sequence[Estimate], *, is_largest: bool = True) -> Best:
    """Return the best of the `estimates`: the largest, or the smallest unless `is_largest`.

    Of equal values the first counts as the best, and the others as its rivals. An estimate with an
    unknown end towards the other is never distinguished. Raises NoValues.
    """
    if not estimates:
        raise NoValues
    sign = -1.0 if is_largest else 1.0
    first, *later = sorted(range(len(estimates)), key=lambda at: sign * estimates[at].value)

    def is_rival(place: int) -> bool:
        above, below = (first, place) if is_largest else (place, first)
        return not are_told_apart(estimates[below], estimates[above])

    return Best(first, tuple(place for place in later if is_rival(place)))


def are_told_apart(below: Estimate, above: Estimate) -> bool:
    """Return whether the interval of `above` lies wholly above that of `below`."""
    return below.high is not None and above.low is not None and below.high < above.low
