"""How much an agent was used: the evaluations that were requested on it, day by day. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from mlscope.counts import many
from schemas.status import EvaluationStatus

DAYS = 28
COUNTED = 200
"""The newest evaluations that are counted."""


@dataclass(frozen=True, slots=True)
class DayBar:
    """A day and its evaluations: place and size are percent of the picture."""

    text: str
    x: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class AgentUse:
    """The evaluations of the last days, each day a bar; `begins` and `ends` are its first and last.

    With `is_cut` there are older ones that were not counted.
    """

    bars: Sequence[DayBar]
    begins: str
    ends: str
    total: int
    most: int
    is_cut: bool = False

    @property
    def text(self) -> str:
        """The picture in a sentence."""
        least = "at least " if self.is_cut else ""
        return (
            f"{least}{many(self.total, 'evaluation')} from {self.begins} to {self.ends}, "
            f"{self.most} on the busiest day"
        )


def use_of(evaluations: Sequence[EvaluationStatus], now_ns: int) -> AgentUse | None:
    """Return the use in the `DAYS` up to `now_ns` by an agent's newest evaluations; None for none.

    Days are of UTC. Of `evaluations` there are at most `COUNTED`: where even the oldest of them
    is of these days, there may be more that are not counted.
    """
    today = _day_of(now_ns)
    days = [today - timedelta(days=DAYS - 1 - place) for place in range(DAYS)]
    counts = Counter(_day_of(status.requested_ns) for status in evaluations)
    own = [counts[day] for day in days]
    most = max(own)
    if not most:
        return None
    width = 100.0 / DAYS
    bars = [
        DayBar(
            f"{day:%Y-%m-%d}: {many(count, 'evaluation')}",
            place * width,
            0.8 * width,
            100.0 * count / most,
        )
        for place, (day, count) in enumerate(zip(days, own, strict=True))
        if count
    ]
    is_cut = len(evaluations) >= COUNTED and min(counts) >= days[0]
    return AgentUse(bars, f"{days[0]:%Y-%m-%d}", f"{today:%Y-%m-%d}", sum(own), most, is_cut)


def _day_of(epoch_ns: int) -> date:
    return datetime.fromtimestamp(epoch_ns / 1e9, UTC).date()
