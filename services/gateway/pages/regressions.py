"""Loads that became slower since they were last measured on the same system. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from mlscope.quantities import shown
from mlscope.statistics import Estimate, certain_change
from schemas import analysis
from schemas.analysis import Headline
from schemas.status import EvaluationStatus
from services.gateway.pages.headlines import Figure, latency_figure


@dataclass(frozen=True, slots=True)
class Regression:
    """A load whose newest latency is above the one before, with intervals that do not overlap."""

    newer: EvaluationStatus
    older: EvaluationStatus
    headline: Headline
    before: Headline
    change: float

    @property
    def load(self) -> str:
        """Scenario and batch size."""
        return f"{self.headline.scenario}, batch {self.headline.batch_size}"

    @property
    def figures(self) -> tuple[Figure | None, Figure | None]:
        """The latency before and now."""
        return latency_figure(self.before), latency_figure(self.headline)

    @property
    def change_text(self) -> str:
        """How much slower it is."""
        return f"+{shown(self.change, 'share')}"

    @property
    def comparison(self) -> str:
        """The address that compares both evaluations, the older one first."""
        evaluations = [self.older.evaluation, self.newer.evaluation]
        return f"/compare?{urlencode([('evaluation', name) for name in evaluations])}"

    @property
    def history(self) -> str:
        """The address of all measurements of the model on this system."""
        framework: Sequence[str] = self.newer.framework.split()
        query = {
            "model": self.newer.model.partition(":")[0],
            "framework": framework[0] if framework else "",
            "agent": self.headline.agent,
            "device": self.newer.device,
            "scenario": self.headline.scenario,
        }
        return f"/explore/history?{urlencode({name: v for name, v in query.items() if v})}"


def regressions_in(history: Iterable[EvaluationStatus]) -> list[Regression]:
    """Return the loads whose newest measurement is slower than the one before, the worst first.

    `history` is newest first. Loads are alike if model (of any version), framework, device, agent,
    scenario, parameters and batch size are equal. Other conditions may differ: the comparison of
    the two evaluations tells.
    """
    newest: dict[tuple[object, ...], tuple[EvaluationStatus, Headline]] = {}
    judged: set[tuple[object, ...]] = set()
    regressions = []
    for status in history:
        for headline in status.headlines:
            key = _load_key(status, headline)
            if key in judged:
                continue
            if key not in newest:
                newest[key] = (status, headline)
                continue
            judged.add(key)
            newer, current = newest[key]
            change = _certain_change(headline.latency_ns, current.latency_ns)
            if newer is not status and change > 0:
                regressions.append(Regression(newer, status, current, headline, change))
    return sorted(regressions, key=lambda regression: -regression.change)


def _load_key(status: EvaluationStatus, headline: Headline) -> tuple[object, ...]:
    framework: Sequence[str] = status.framework.split()
    return (
        status.model.partition(":")[0],
        framework[0] if framework else "",
        status.device,
        headline.agent,
        headline.scenario,
        headline.parameters,
        headline.batch_size,
        headline.statistic,
    )


def _certain_change(before: analysis.Estimate | None, now: analysis.Estimate | None) -> float:
    """Return by which share a latency changed if the intervals do not overlap, else 0."""
    if before is None or now is None:
        return 0.0
    old, new = (Estimate(one.value, one.low, one.high) for one in (before, now))
    return certain_change(old, new)
